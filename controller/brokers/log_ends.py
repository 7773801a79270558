"""How are brokers asked where their logs end, beside their commands?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.brokers.questions import Question, Questions
from controller.connections.broker import Dialer
from controller.core.messages.effects import DescribeLogEnds
from controller.core.messages.events import LogEndsDescribed
from controller.wire.log_ends import decode_answer, encode_question

ANSWER_WITHIN_S = 2.0


class LogEnds:
    """Carries out `DescribeLogEnds` for one term; `emit` receives every outcome, failures included."""

    def __init__(
        self,
        listener_name: str,
        emit: Callable[[LogEndsDescribed], None],
        *,
        dialer: Dialer | None = None,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        self._questions = Questions(listener_name, emit, dialer, answer_within_s)

    def describe(self, asked: DescribeLogEnds) -> None:
        """Query one broker; a query that it has not answered yet is given up."""

        def encoded(correlation_id: int) -> Sequence[bytes]:
            return (encode_question(asked.partitions, correlation_id),)

        async def described(frame: bytes) -> LogEndsDescribed:
            return LogEndsDescribed(asked.broker, asked.broker_epoch, decode_answer(frame))

        def failed(reason: str) -> LogEndsDescribed:
            return LogEndsDescribed(asked.broker, asked.broker_epoch, {}, reason)

        self._questions.ask(asked.broker, asked.registration, Question(encoded, described, failed))

    async def close(self) -> None:
        """Give every query up."""
        await self._questions.close()
