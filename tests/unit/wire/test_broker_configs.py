"""What a broker is asked about itself, and what it answers."""

from __future__ import annotations

import pytest

from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.wire.apis import ApiKey
from controller.wire.broker_configs import Refused, decode_answer, encode_question
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader
from tests.unit.preflight.world import encode_described
from zk_layout.ids import BrokerId

HEADER = RequestHeader(ApiKey.DESCRIBE_CONFIGS, 1, 7)


def test_a_broker_is_asked_for_some_keys_of_its_own() -> None:
    assert encode_question(BrokerId(3), ("a.b",), 7) == (
        b"\0\0\0\x2f\0\x20\0\1\0\0\0\7\0\x13kafka-zk-controller\0\0\0\1\4\0\x013\0\0\0\1\0\3a.b\1"
    )


def test_the_answer_is_read_past_everything_not_asked_for() -> None:
    assert decode_answer(encode_described(HEADER, "2.8-IV1")[4:]) == {
        "inter.broker.protocol.version": BrokerConfig("2.8-IV1", ConfigSource.STATIC_BROKER),
    }


def test_a_setting_that_was_changed_at_run_time_says_what_it_would_otherwise_be() -> None:
    found = decode_answer(encode_described(HEADER, "2.8-IV1", {"a": "!true", "b": "!!true"})[4:])

    assert found["a"] == BrokerConfig("true", ConfigSource.DYNAMIC_DEFAULT_BROKER, otherwise="false")
    assert found["b"] == BrokerConfig("true", ConfigSource.DYNAMIC_BROKER, otherwise="false")


def test_a_refusal_has_a_name() -> None:
    with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED"):
        decode_answer(encode_described(HEADER, None)[4:])


def test_half_an_answer_is_none() -> None:
    with pytest.raises(Malformed):
        decode_answer(encode_described(HEADER, "2.8-IV1")[4:-1])
