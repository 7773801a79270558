"""All settings of a new topic: its own, and those that a broker uses where it has none."""

from __future__ import annotations

import pytest

from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.core.topics.configs import KNOWN
from controller.core.topics.effective_configs import ASKED, SYNONYMS, effective

DEFAULT, STATIC, DYNAMIC = ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER


def value_of(name: str, own: dict[str, str] | None = None, **broker: str | None) -> str | None:
    """What a setting is where the broker describes these of itself, which no one set; underscores are dots."""
    described = {key.replace("_", "."): BrokerConfig(value, DEFAULT) for key, value in broker.items()}
    (value,) = [config.value for config in effective(own or {}, described) if config.name == name]
    return value


@pytest.mark.parametrize(
    ("ms", "minutes", "hours", "value"),
    [
        ("1", "2", "3", "1"),
        (None, "2", "3", "120000"),
        (None, None, "3", "10800000"),
        ("-1", None, "3", "-1"),
        (None, "-1", "3", "-1"),
        (None, None, "-1", "-1"),
    ],
)
def test_the_first_synonym_that_has_a_value_counts(ms: str | None, minutes: str | None, hours: str, value: str) -> None:
    described = {"log_retention_ms": ms, "log_retention_minutes": minutes, "log_retention_hours": hours}

    assert value_of("retention.ms", **described) == value


def test_a_topics_own_setting_counts_more_and_is_written_as_brokers_write_it() -> None:
    own = {"retention.ms": " +5", "cleanup.policy": "compact, delete", "preallocate": "TRUE"}
    found = {c.name: c for c in effective(own, {"log.retention.ms": BrokerConfig("7", STATIC)})}

    assert {name: config.value for name, config in found.items()} == {
        "cleanup.policy": "compact,delete",
        "preallocate": "true",
        "retention.ms": "5",
    }
    assert {config.source for config in found.values()} == {ConfigSource.TOPIC}


def test_the_source_is_the_first_synonyms_as_kafka_has_it() -> None:
    described = {
        "log.roll.ms": BrokerConfig(None, DEFAULT),
        "log.roll.hours": BrokerConfig("1", STATIC),
        "min.insync.replicas": BrokerConfig("2", DYNAMIC),
    }

    assert [(c.name, c.source) for c in effective({}, described)] == [
        ("min.insync.replicas", DYNAMIC),
        ("segment.ms", DEFAULT),
    ]


def test_a_setting_that_the_broker_does_not_know_is_left_out() -> None:
    assert effective({}, {}) == ()


def test_what_has_no_counterpart_is_known_by_what_came_with_it() -> None:
    old = {"log.segment.bytes": BrokerConfig("1", DEFAULT)}
    tiered = {**old, "log.local.retention.ms": BrokerConfig("-2", DEFAULT)}
    newest = {**tiered, "controller.quorum.bootstrap.servers": BrokerConfig("", DEFAULT)}

    assert [
        {c.name for c in effective({}, described) if "throttled" in c.name or c.name.startswith("remote")}
        for described in (old, tiered, newest)
    ] == [
        {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas"},
        {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas", "remote.storage.enable"},
        {
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
        },
    ]


@pytest.mark.parametrize("name", ["message_timestamp_before_max_ms", "message_timestamp_after_max_ms"])
def test_a_bound_of_one_direction_is_that_of_both_unless_it_is_set(name: str) -> None:
    both = {"log_message_timestamp_difference_max_ms": "5", f"log_{name}": "9223372036854775807"}

    assert value_of(name.replace("_", "."), **both) == "5"
    described = {key.replace("_", "."): BrokerConfig(value, STATIC) for key, value in both.items()}
    assert {c.value for c in effective({}, described) if c.name == name.replace("_", ".")} == {"9223372036854775807"}


def test_every_setting_that_topics_can_have_is_known() -> None:
    only_of_topics = {name for name in KNOWN if "throttled" in name or name.startswith("remote.")}

    assert {*SYNONYMS} | only_of_topics == {*KNOWN}
    assert len(ASKED) == len({*ASKED})
