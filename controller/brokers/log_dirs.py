"""How are brokers asked for the sizes of replicas, and for the room of their disks, beside their commands?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from controller.brokers.questions import ANSWER_WITHIN_S, Question, Questions
from controller.connections.broker import Dialer
from controller.core.messages.effects import DescribeDisks, DescribeLogDirs
from controller.core.messages.events import DisksDescribed, LogDirsDescribed, ReplicaSize
from controller.wire.apis import ApiKey
from controller.wire.log_dirs import WITH_ROOM, decode_described, decode_room, encode_describe
from zk_layout.ids import TopicPartition

_SHORT_BYTES = 64 * 1024
_Decoded = TypeVar("_Decoded")


class LogDirs:
    """Carries out `DescribeLogDirs` and `DescribeDisks` for a term; `emit` gets every outcome, failures included."""

    def __init__(
        self,
        listener_name: str,
        version: int,
        client_id: str,
        emit: Callable[[LogDirsDescribed | DisksDescribed], None],
        *,
        dialer: Dialer | None = None,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        """`version` is that of the request for sizes."""
        self._version = version
        self._client_id = client_id
        # By what they are about: moves under way, and moves that wait.
        self._questions = tuple(Questions(listener_name, emit, dialer, answer_within_s) for _ in (False, True))
        self._disks = Questions(listener_name, emit, dialer, answer_within_s)

    def describe_disks(self, asked: DescribeDisks) -> None:
        """Ask one broker, if it knows a version that tells it; older brokers hang up on that version."""

        def encoded(correlation_id: int) -> Sequence[bytes]:
            return encode_describe(asked.partitions, WITH_ROOM, correlation_id, self._client_id).chunks

        async def described(frame: bytes) -> DisksDescribed:
            return DisksDescribed(asked.broker, asked.broker_epoch, *await _decoded(decode_room, frame))

        def failed(reason: str) -> DisksDescribed:
            return DisksDescribed(asked.broker, asked.broker_epoch, error=reason)

        needs = ApiKey.DESCRIBE_LOG_DIRS, WITH_ROOM
        self._disks.ask(asked.broker, asked.registration, Question(encoded, described, failed, needs))

    def describe(self, asked: DescribeLogDirs) -> None:
        """Query one broker; a query of the same kind that it has not answered yet is given up."""

        def encoded(correlation_id: int) -> Sequence[bytes]:
            return encode_describe(asked.partitions, self._version, correlation_id, self._client_id).chunks

        async def described(frame: bytes) -> LogDirsDescribed:
            return outcome(await _decoded(partial(decode_described, version=self._version), frame))

        def failed(reason: str) -> LogDirsDescribed:
            return outcome({}, reason)

        def outcome(sizes: dict[TopicPartition, ReplicaSize], reason: str | None = None) -> LogDirsDescribed:
            return LogDirsDescribed(asked.broker, asked.broker_epoch, sizes, reason, asked.is_of_waiting)

        self._questions[asked.is_of_waiting].ask(asked.broker, asked.registration, Question(encoded, described, failed))

    async def close(self) -> None:
        """Give every query up."""
        for questions in (*self._questions, self._disks):
            await questions.close()


async def _decoded(decode: Callable[[bytes], _Decoded], frame: bytes) -> _Decoded:
    """Decode on another thread if it is long enough to hold up the event loop."""
    if len(frame) <= _SHORT_BYTES:
        return decode(frame)
    return await asyncio.to_thread(decode, frame)
