"""How are brokers asked for the sizes of replicas, beside their commands?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from controller.brokers.questions import ANSWER_WITHIN_S, Question, Questions
from controller.connections.broker import Dialer
from controller.core.messages.effects import DescribeLogDirs
from controller.core.messages.events import LogDirsDescribed, ReplicaSize
from controller.wire.log_dirs import decode_described, encode_describe
from zk_layout.ids import TopicPartition

_SHORT_BYTES = 64 * 1024


class LogDirs:
    """Carries out `DescribeLogDirs` for one term; `emit` receives every outcome, failures included."""

    def __init__(
        self,
        listener_name: str,
        version: int,
        client_id: str,
        emit: Callable[[LogDirsDescribed], None],
        *,
        dialer: Dialer | None = None,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        """`version` is that of the request."""
        self._version = version
        self._client_id = client_id
        # By what they are about: moves under way, and moves that wait.
        self._questions = tuple(Questions(listener_name, emit, dialer, answer_within_s) for _ in (False, True))

    def describe(self, asked: DescribeLogDirs) -> None:
        """Query one broker; a query of the same kind that it has not answered yet is given up."""

        def encoded(correlation_id: int) -> Sequence[bytes]:
            return encode_describe(asked.partitions, self._version, correlation_id, self._client_id).chunks

        async def described(frame: bytes) -> LogDirsDescribed:
            return outcome(await self._decoded(frame))

        def failed(reason: str) -> LogDirsDescribed:
            return outcome({}, reason)

        def outcome(sizes: dict[TopicPartition, ReplicaSize], reason: str | None = None) -> LogDirsDescribed:
            return LogDirsDescribed(asked.broker, asked.broker_epoch, sizes, reason, asked.is_of_waiting)

        self._questions[asked.is_of_waiting].ask(asked.broker, asked.registration, Question(encoded, described, failed))

    async def close(self) -> None:
        """Give every query up."""
        for questions in self._questions:
            await questions.close()

    async def _decoded(self, frame: bytes) -> dict[TopicPartition, ReplicaSize]:
        """Decode on another thread if it is long enough to hold up the event loop."""
        if len(frame) <= _SHORT_BYTES:
            return decode_described(frame, self._version)
        return await asyncio.to_thread(decode_described, frame, self._version)
