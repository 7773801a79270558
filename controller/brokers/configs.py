"""How are brokers asked which of their own settings are in force, beside their commands?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.brokers.questions import Question, Questions
from controller.connections.broker import Dialer
from controller.core.messages.effects import DescribeBrokerConfig
from controller.core.messages.events import BrokerConfigDescribed
from controller.wire.broker_configs import AT_RUN_TIME, decode_answer, encode_question

ANSWER_WITHIN_S = 2.0


class BrokerConfigs:
    """Carries out `DescribeBrokerConfig` for one term; `emit` receives every outcome, failures included."""

    def __init__(
        self,
        listener_name: str,
        emit: Callable[[BrokerConfigDescribed], None],
        *,
        dialer: Dialer | None = None,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        self._questions = Questions(listener_name, emit, dialer, answer_within_s)

    def describe(self, asked: DescribeBrokerConfig) -> None:
        """Query one broker; a query that it has not answered yet is given up."""

        def encoded(correlation_id: int) -> Sequence[bytes]:
            return (encode_question(asked.broker, asked.keys, correlation_id),)

        async def described(frame: bytes) -> BrokerConfigDescribed:
            found = decode_answer(frame)
            # What is in the broker's file is listed as well, but counts for no throttle. Before 2.8 a broker does not
            # know the type of its rate, and hides the value as if it were a password.
            at_run_time = {
                key: found[key].value for key in asked.keys if key in found and found[key].source in AT_RUN_TIME
            }
            values = {key: value for key, value in at_run_time.items() if value is not None}
            return BrokerConfigDescribed(asked.broker, asked.broker_epoch, values)

        def failed(reason: str) -> BrokerConfigDescribed:
            return BrokerConfigDescribed(asked.broker, asked.broker_epoch, {}, reason)

        self._questions.ask(asked.broker, asked.registration, Question(encoded, described, failed))

    async def close(self) -> None:
        """Give every query up."""
        await self._questions.close()
