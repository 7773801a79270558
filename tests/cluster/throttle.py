"""How are the copies of one topic made slow, so that a move is surely under way?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from controller.demo.clients import ConfigResource, ConfigResourceType, KafkaAdminClient
from tests.cluster.moves import Topic

_SIDES = ("leader", "follower")


@contextmanager
def throttled(topic: Topic, rate_bytes_s: int) -> Iterator[None]:
    """Copies are slow until the end of the `with`; replicas in sync are not held back."""
    rates = {f"{side}.replication.throttled.rate": str(rate_bytes_s) for side in _SIDES}
    wanted = [
        ConfigResource(ConfigResourceType.BROKER, str(broker), rates)
        for broker, server in topic.ruled.cluster.brokers.items()
        if server.process.is_alive
    ]
    replicas = {f"{side}.replication.throttled.replicas": "*" for side in _SIDES}
    wanted.append(ConfigResource(ConfigResourceType.TOPIC, topic.name, replicas))
    admin = KafkaAdminClient(bootstrap_servers=topic.ruled.cluster.bootstrap_servers.split(","))
    try:
        admin.alter_configs(wanted, raise_on_unknown=False)
        yield
        admin.reset_configs(wanted, raise_on_unknown=False)
    finally:
        admin.close()
