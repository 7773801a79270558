"""How is the replication of one topic slowed down, so that a move lasts?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from controller.demo.clients import ConfigResource, ConfigResourceType, KafkaAdminClient
from controller.demo.waiting import wait_for
from controller.lab.kafka_broker import KafkaBroker
from tests.cluster.moves import Topic

_SIDES = ("leader", "follower")


@contextmanager
def throttled(topic: Topic, rate_bytes_s: int) -> Iterator[None]:
    """Slow down replication until the end of the `with`; in-sync replicas hardly lag."""
    yield from _throttled(topic, rate_bytes_s, {f"{side}.replication.throttled.replicas": "*" for side in _SIDES})


@contextmanager
def newcomers_throttled(topic: Topic, rate_bytes_s: int) -> Iterator[None]:
    """Slow down only replication to brokers that the topic's plan adds, until the end of the `with`."""
    present = {int(seen.partition): seen.assignment.replicas for seen in topic.partitions}
    adding = [f"{p}:{broker}" for p, replicas in topic.plan.items() for broker in replicas if broker not in present[p]]
    yield from _throttled(topic, rate_bytes_s, {"follower.replication.throttled.replicas": ",".join(adding)})


def _throttled(topic: Topic, rate_bytes_s: int, replicas: Mapping[str, str]) -> Iterator[None]:
    rates = {f"{side}.replication.throttled.rate": str(rate_bytes_s) for side in _SIDES}
    brokers = [broker for broker in topic.led.cluster.brokers.values() if broker.process.is_alive]
    wanted = [ConfigResource(ConfigResourceType.BROKER, str(broker.broker_id), rates) for broker in brokers]
    wanted.append(ConfigResource(ConfigResourceType.TOPIC, topic.name, dict(replicas)))
    admin = KafkaAdminClient(bootstrap_servers=topic.led.cluster.bootstrap_servers.split(","))
    try:
        with _taking_effect(topic, brokers):
            _until_taken(partial(admin.alter_configs, wanted, raise_on_unknown=False))
        yield
        with _taking_effect(topic, brokers):
            _until_taken(partial(admin.reset_configs, wanted, raise_on_unknown=False))
    finally:
        admin.close()


def _until_taken(ask: Callable[[], Mapping[str, Mapping[str, object]]]) -> None:
    """Retry: a broker that has just started may not know the topic yet, which only its answer shows."""
    wait_for(lambda: _is_taken(ask()), "the brokers taking a throttle")


def _is_taken(answers: Mapping[str, Mapping[str, object]]) -> bool:
    return all(outcome == "OK" for outcomes in answers.values() for outcome in outcomes.values())


@contextmanager
def _taking_effect(topic: Topic, brokers: Sequence[KafkaBroker]) -> Iterator[None]:
    """Wait until brokers apply these settings, some time after the answer; the topic's come last."""
    override = f"Processing override for entityPath: topics/{topic.name} ".encode()
    before = {broker.broker_id: broker.process.output_since_start().count(override) for broker in brokers}
    yield
    for broker in brokers:
        heard = partial(_has_more, broker, override, before[broker.broker_id])
        wait_for(heard, f"broker {broker.broker_id} hearing of the throttle")


def _has_more(broker: KafkaBroker, override: bytes, than: int) -> bool:
    return broker.process.output_since_start().count(override) > than
