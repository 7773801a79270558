"""Brokers are asked for settings of their own, and every query has an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Any

import pytest

from controller.brokers.configs import BrokerConfigs
from controller.core.messages.effects import DescribeBrokerConfig
from controller.core.messages.events import BrokerConfigDescribed
from controller.wire.requests import decode_header
from tests.unit.preflight.world import Answering, encode_described
from zk_layout.ids import BrokerEpoch, BrokerId
from zk_layout.znodes.brokers import Endpoint, Registration

BROKER, EPOCH = BrokerId(1), BrokerEpoch(7)


class Dialer:
    """Connects with one broker in memory, which says this of itself; without a protocol it refuses."""

    def __init__(self, protocol: str | None, reported: Mapping[str, str]) -> None:
        self._protocol = protocol
        self._reported = reported

    def reaches(self, _: Endpoint) -> bool:
        """Always."""
        return True

    async def open_connection(self, _: Endpoint) -> Any:
        """Connect."""
        reader = asyncio.StreamReader()
        return reader, Answering(reader, self._answer)

    def lasts_s(self, _: Any) -> float:
        """For ever."""
        return inf

    def _answer(self, frame: bytes) -> bytes:
        return encode_described(decode_header(frame), self._protocol, self._reported)


def outcomes(
    protocol: str | None = "3.9-IV0", reported: Mapping[str, str] | None = None, listener: str = "PLAINTEXT"
) -> list[BrokerConfigDescribed]:
    """What comes of two questions, one after the other."""
    asked = DescribeBrokerConfig(BROKER, EPOCH, Registration((Endpoint(listener, "broker", 9092),)), ("a", "b"))

    async def ask() -> list[BrokerConfigDescribed]:
        heard: asyncio.Queue[BrokerConfigDescribed] = asyncio.Queue()
        configs = BrokerConfigs("PLAINTEXT", heard.put_nowait, dialer=Dialer(protocol, reported or {}))
        try:
            seen = []
            for _ in range(2):
                configs.describe(asked)
                seen.append(await heard.get())
            return seen
        finally:
            await configs.close()

    return asyncio.run(ask())


def test_only_what_was_changed_at_run_time_and_asked_for_is_reported() -> None:
    reported = {"a": "!!7", "b": "7", "c": "!!7"}

    assert outcomes(reported=reported) == [BrokerConfigDescribed(BROKER, EPOCH, {"a": "7"})] * 2


@pytest.mark.parametrize(
    ("protocol", "listener", "error"),
    [
        (None, "PLAINTEXT", "DescribeConfigs is refused: CLUSTER_AUTHORIZATION_FAILED"),
        ("3.9-IV0", "OTHER", "it has no listener PLAINTEXT"),
    ],
)
def test_a_broker_that_does_not_say_is_an_outcome_too(protocol: str | None, listener: str, error: str) -> None:
    assert outcomes(protocol, listener=listener) == [BrokerConfigDescribed(BROKER, EPOCH, {}, error)] * 2
