"""How is a broker asked something beside its commands?

Over a connection of its own, opened on first use, so that neither waits for the other. One question a broker at a time,
without repetition: who needs the answer asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from controller.brokers.dialing import PlaintextDialer
from controller.connections.broker import Broken, BrokerConnection, Dialer
from controller.runtime.supervision import reason_of
from controller.wire import broker_configs, log_dirs
from controller.wire.apis import ApiKey
from controller.wire.cursor import Malformed
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint, Registration

ANSWER_WITHIN_S = 10.0
IDLE_S = 120.0

_Outcome = TypeVar("_Outcome")


class Question(Struct, Generic[_Outcome], frozen=True):
    """What to send, given a correlation id, and what its outcome is: of a frame, or of the reason why there is none.

    Shape:
        `needs` is a version of a request: a broker that does not report to know it is not asked.
    """

    encode: Callable[[int], Sequence[bytes]]
    decode: Callable[[bytes], Awaitable[_Outcome]]
    failed: Callable[[str], _Outcome]
    needs: tuple[ApiKey, int] | None = None


class _NotKnown(Exception):
    """The broker does not know the version of the request; the message says so."""


_SPOKEN = Broken | Malformed | log_dirs.Refused | broker_configs.Refused | _NotKnown


class _Line(Struct):
    endpoint: Endpoint
    connection: BrokerConnection
    task: asyncio.Task[None] | None = None
    idle: asyncio.TimerHandle | None = None


class Questions(Generic[_Outcome]):
    """Questions of one kind to all brokers, for one term; `emit` receives every outcome, failures included."""

    def __init__(
        self,
        listener_name: str,
        emit: Callable[[_Outcome], None],
        dialer: Dialer | None = None,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        self._listener_name = listener_name
        self._emit = emit
        self._dialer = dialer or PlaintextDialer()
        self._answer_within_s = answer_within_s
        self._lines: dict[BrokerId, _Line] = {}

    def ask(self, broker: BrokerId, registration: Registration, question: Question[_Outcome]) -> None:
        """Ask one broker; a question that it has not answered yet is given up."""
        endpoint = registration.endpoint(self._listener_name)
        if endpoint is None:
            self._emit(question.failed(f"it has no listener {self._listener_name}"))
            return
        line = self._lines.get(broker)
        if line is None or line.endpoint != endpoint or (line.task is not None and not line.task.done()):
            if line is not None:
                self._hang_up(line)
            line = self._lines[broker] = _Line(endpoint, BrokerConnection(self._dialer, endpoint))
        if line.idle is not None:
            line.idle.cancel()
        line.task = asyncio.get_running_loop().create_task(self._ask(question, line))

    async def close(self) -> None:
        """Give every question up."""
        tasks = [line.task for line in self._lines.values() if line.task is not None]
        for line in self._lines.values():
            self._hang_up(line)
        self._lines.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, question: Question[_Outcome], line: _Line) -> None:
        connection = line.connection
        try:
            if question.needs is not None:
                await self._look_for(*question.needs, connection)
            correlation_id = connection.next_correlation_id()
            frame = await connection.ask(*question.encode(correlation_id), timeout_s=self._answer_within_s)
            outcome = await question.decode(frame)
        except Exception as error:  # whatever a broker answers, the caller must get an outcome
            connection.drop()
            outcome = question.failed(str(error) if isinstance(error, _SPOKEN) else reason_of(error))
        line.idle = asyncio.get_running_loop().call_later(IDLE_S, connection.drop)
        self._emit(outcome)

    async def _look_for(self, api: ApiKey, version: int, connection: BrokerConnection) -> None:
        known = (await connection.versions(self._answer_within_s)).get(api)
        if known is None or version not in known:
            what = f"it knows no version {version} of {api.api_name}"
            raise _NotKnown(what if known is None else f"{what}, up to {known.highest} only")

    @staticmethod
    def _hang_up(line: _Line) -> None:
        if line.idle is not None:
            line.idle.cancel()
        if line.task is not None:
            line.task.cancel()
        line.connection.retire()
