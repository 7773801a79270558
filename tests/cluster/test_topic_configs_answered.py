"""CreateTopics returns the settings of new topics and their sources, like a native controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.messages.replies import ConfigSource, TopicConfig, TopicsCreated
from controller.core.messages.requests import CreateTopics, NewTopic
from controller.lab.asking import controller_named_by
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.cluster.replica import Replica, wait_until
from tests.cluster.walk import OFTEN, VERSIONS
from tests.equipment.any_request import ask
from zk_layout.ids import TopicName

KIP_525 = 5
SMALL = TopicConfig("segment.bytes", "1048576", ConfigSource.DYNAMIC_DEFAULT_BROKER)
OWN = (("cleanup.policy", "compact, delete"), ("retention.ms", "4711"), ("preallocate", "TRUE"))
BROKERS = {
    "log.roll.hours": 7,
    "log.retention.minutes": 90,
    "log.flush.scheduler.interval.ms": 5_000,
    "log.message.timestamp.difference.max.ms": 86_400_000,
    "log.cleaner.min.cleanable.ratio": 0.25,
    "compression.type": "lz4",
}


def answered(address: str, topic: str, *, is_validation_only: bool) -> tuple[TopicConfig, ...]:
    request = CreateTopics((NewTopic(TopicName(topic), 1, 1, configs=OWN),), 30_000, is_validation_only)
    answer = ask(address, request, version=KIP_525, timeout_s=30.0)
    assert isinstance(answer, TopicsCreated)
    (result,) = answer.results
    assert result.configs is not None, result
    return tuple(sorted(result.configs, key=lambda config: config.name))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "version", [v if v in OFTEN else pytest.param(v, marks=pytest.mark.thorough) for v in VERSIONS]
)
def test_the_settings_of_a_new_topic_are_those_that_a_native_controller_tells(version: str, tmp_path: Path) -> None:
    try:
        cluster = LocalCluster(ClusterSettings(version, (1, 2), overrides=BROKERS), directory=tmp_path / "cluster")
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        changed = cluster.tools.run(
            "kafka-configs", "--bootstrap-server", cluster.bootstrap_servers, "--alter",
            "--entity-type", "brokers", "--entity-default", "--add-config", "log.segment.bytes=1048576",
        )  # fmt: skip
        assert changed.exit_code == 0, changed.output
        native = controller_named_by(cluster.bootstrap_servers.split(",")[0])
        assert native is not None
        address = cluster.brokers[native].address
        wait_until(lambda: SMALL in answered(address, "first", is_validation_only=True), "the broker had read it")
        theirs = [answered(address, f"theirs-{only}", is_validation_only=only) for only in (True, False)]
        with Replica(cluster.zookeeper_connect, tmp_path, inter_broker_protocol_version="auto") as leader:
            leader.await_phase("active")
            ours = [answered(leader.address, f"ours-{only}", is_validation_only=only) for only in (True, False)]

    assert theirs[0] == theirs[1]
    assert ours == theirs
