"""With which ZooKeeper do we speak, and how?"""

from __future__ import annotations

from msgspec import Struct

from controller.zk.protocol import OPEN_TO_ALL


class ZooKeeperSettings(Struct, frozen=True):
    """How to speak to ZooKeeper.

    `connect` is Kafka's `zookeeper.connect`: hosts, and perhaps a chroot behind them. `max_in_flight` bounds
    the unanswered requests. `acl` is what is put on created znodes, as bytes of ZooKeeper's protocol.
    `request_limit_bytes` is ZooKeeper's jute.maxbuffer.
    """

    connect: str
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 30_000
    max_in_flight: int = 64
    acl: bytes = OPEN_TO_ALL
    request_limit_bytes: int = 1_048_575
