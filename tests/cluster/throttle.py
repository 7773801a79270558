"""How are the copies of one topic made slow, so that a move is surely under way?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from controller.demo.clients import ConfigResource, ConfigResourceType, KafkaAdminClient
from tests.cluster.moves import Topic

_SIDES = ("leader", "follower")


@contextmanager
def throttled(topic: Topic, rate_bytes_s: int) -> Iterator[None]:
    """Copies are slow until the end of the `with`; replicas in sync are not held back for long."""
    yield from _throttled(topic, rate_bytes_s, {f"{side}.replication.throttled.replicas": "*" for side in _SIDES})


@contextmanager
def newcomers_throttled(topic: Topic, rate_bytes_s: int) -> Iterator[None]:
    """Copies to brokers that the topic's plan adds are slow until the end of the `with`; nothing else is."""
    present = {int(seen.partition): seen.assignment.replicas for seen in topic.partitions}
    adding = [f"{p}:{broker}" for p, replicas in topic.plan.items() for broker in replicas if broker not in present[p]]
    yield from _throttled(topic, rate_bytes_s, {"follower.replication.throttled.replicas": ",".join(adding)})


def _throttled(topic: Topic, rate_bytes_s: int, replicas: Mapping[str, str]) -> Iterator[None]:
    rates = {f"{side}.replication.throttled.rate": str(rate_bytes_s) for side in _SIDES}
    wanted = [
        ConfigResource(ConfigResourceType.BROKER, str(broker), rates)
        for broker, server in topic.ruled.cluster.brokers.items()
        if server.process.is_alive
    ]
    wanted.append(ConfigResource(ConfigResourceType.TOPIC, topic.name, dict(replicas)))
    admin = KafkaAdminClient(bootstrap_servers=topic.ruled.cluster.bootstrap_servers.split(","))
    try:
        admin.alter_configs(wanted, raise_on_unknown=False)
        yield
        admin.reset_configs(wanted, raise_on_unknown=False)
    finally:
        admin.close()
