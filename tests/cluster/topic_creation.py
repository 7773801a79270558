"""How does a client make a broker create a topic?"""

from __future__ import annotations

import socket
import struct

from controller.demo.znodes import Znodes
from controller.lab.kafka_broker import KafkaBroker
from controller.wire.frames import framed
from controller.wire.versions import ApiKey
from tests.cluster.replica import receive_frame


def ask_for(broker: KafkaBroker, topic: str, znodes: Znodes) -> bool:
    """Ask about a topic; whether it exists now. Brokers refuse to create one until they know of enough others."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=30) as connection:
        name = topic.encode()
        connection.sendall(framed(struct.pack(">hhihih", ApiKey.METADATA, 1, 1, -1, 1, len(name)), name))
        receive_frame(connection)
    return topic in znodes.children("/brokers/topics")
