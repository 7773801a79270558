"""Brokers are asked where their logs end, and every query has an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Any

import pytest

from controller.brokers.log_ends import LogEnds
from controller.core.messages.effects import DescribeLogEnds
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import LogEndsDescribed
from controller.wire.apis import ApiKey
from controller.wire.cursor import Malformed
from controller.wire.frames import encode_response_header, framed
from controller.wire.log_ends import decode_answer, encode_question
from controller.wire.requests import decode_header, reading
from controller.wire.schema import encode_entity, response_schema
from tests.unit.preflight.world import Answering
from zk_layout.ids import BrokerEpoch, BrokerId, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.brokers import Endpoint, Registration

BROKER, EPOCH = BrokerId(1), BrokerEpoch(7)
A0, A1, B0 = (TopicPartition(TopicName(name), PartitionId(number)) for name, number in (("a", 0), ("a", 1), ("b", 0)))
LATEST, DEBUGGING_CONSUMER = -1, -2


def answer(frame: bytes, ends: Mapping[TopicPartition, int]) -> bytes:
    """What a broker answers that knows only these partitions."""
    header, asked = decode_header(frame), list[TopicPartition]()
    with reading(header, frame) as cursor:
        assert cursor.int32("replica_id") == DEBUGGING_CONSUMER
        for _ in cursor.array("topics", 6):
            topic = cursor.topic_name()
            for _ in cursor.array("partitions", 12):
                asked.append(TopicPartition(topic, PartitionId(cursor.int32("partition_index"))))
                assert cursor.int64("timestamp") == LATEST
        cursor.finish()
    schema, topics = response_schema(ApiKey.LIST_OFFSETS, header.api_version), dict[TopicName, list[Any]]()
    for at in asked:
        error = ErrorCode.NONE if at in ends else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        told = schema.make(
            "ListOffsetsPartitionResponse",
            partition_index=at.partition,
            error_code=error,
            timestamp=-1,
            offset=ends.get(at, -1),
        )
        topics.setdefault(at.topic, []).append(told)
    entities = (schema.make("ListOffsetsTopicResponse", name=n, partitions=tuple(its)) for n, its in topics.items())
    entity = schema.make("ListOffsetsResponse", topics=tuple(entities))
    return framed(encode_response_header(header), encode_entity(entity))


class Dialer:
    """Connects with one broker in memory, whose logs end there."""

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends = ends

    def reaches(self, _: Endpoint) -> bool:
        """Always."""
        return True

    async def open_connection(self, _: Endpoint) -> Any:
        """Connect."""
        reader = asyncio.StreamReader()
        return reader, Answering(reader, lambda frame: answer(frame, self._ends))

    def lasts_s(self, _: Any) -> float:
        """For ever."""
        return inf


def outcomes(ends: Mapping[TopicPartition, int], listener: str = "PLAINTEXT") -> list[LogEndsDescribed]:
    """What comes of two questions, one after the other."""
    asked = DescribeLogEnds(BROKER, EPOCH, Registration((Endpoint(listener, "broker", 9092),)), (A0, A1, B0))

    async def ask() -> list[LogEndsDescribed]:
        heard: asyncio.Queue[LogEndsDescribed] = asyncio.Queue()
        log_ends = LogEnds("PLAINTEXT", heard.put_nowait, dialer=Dialer(ends))
        try:
            seen = []
            for _ in range(2):
                log_ends.describe(asked)
                seen.append(await heard.get())
            return seen
        finally:
            await log_ends.close()

    return asyncio.run(ask())


def test_a_broker_says_where_its_logs_end_and_what_it_refuses_is_left_out() -> None:
    assert outcomes({A0: 7, B0: 1 << 40}) == [LogEndsDescribed(BROKER, EPOCH, {A0: 7, B0: 1 << 40})] * 2


def test_a_broker_that_does_not_say_is_an_outcome_too() -> None:
    assert outcomes({}, "OTHER") == [LogEndsDescribed(BROKER, EPOCH, {}, "it has no listener PLAINTEXT")] * 2


def test_whatever_is_cut_off_is_malformed() -> None:
    whole = answer(encode_question((A0, B0), 5)[4:], {A0: 7, B0: 8})[4:]
    assert decode_answer(whole) == {A0: 7, B0: 8}

    for length in range(len(whole)):
        with pytest.raises(Malformed):
            decode_answer(whole[:length])
