"""How are brokers asked for the sizes of replicas, beside their commands?

Over a connection of its own, opened on first use, so that neither waits for the other. One query a broker at a time,
without repetition: the next measurement asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from controller.brokers.dialing import PlaintextDialer
from controller.connections.broker import Broken, BrokerConnection, Dialer
from controller.core.messages.effects import DescribeLogDirs
from controller.core.messages.events import LogDirsDescribed, ReplicaSize
from controller.runtime.supervision import reason_of
from controller.wire.cursor import Malformed
from controller.wire.log_dirs import Refused, decode_described, encode_describe
from zk_layout.ids import BrokerId, TopicPartition
from zk_layout.znodes.brokers import Endpoint

ANSWER_WITHIN_S = 10.0
IDLE_S = 120.0
_SHORT_BYTES = 64 * 1024


class _Line(Struct):
    endpoint: Endpoint
    connection: BrokerConnection
    task: asyncio.Task[None] | None = None
    idle: asyncio.TimerHandle | None = None


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
        self._listener_name = listener_name
        self._version = version
        self._client_id = client_id
        self._emit = emit
        self._dialer = dialer or PlaintextDialer()
        self._answer_within_s = answer_within_s
        self._lines: dict[BrokerId, _Line] = {}

    def describe(self, asked: DescribeLogDirs) -> None:
        """Query one broker; a query that it has not answered yet is given up."""
        endpoint = asked.registration.endpoint(self._listener_name)
        if endpoint is None:
            reason = f"it has no listener {self._listener_name}"
            self._emit(LogDirsDescribed(asked.broker, asked.broker_epoch, {}, reason))
            return
        line = self._lines.get(asked.broker)
        if line is None or line.endpoint != endpoint or (line.task is not None and not line.task.done()):
            if line is not None:
                self._hang_up(line)
            line = self._lines[asked.broker] = _Line(endpoint, BrokerConnection(self._dialer, endpoint))
        if line.idle is not None:
            line.idle.cancel()
        line.task = asyncio.get_running_loop().create_task(self._ask(asked, line))

    async def close(self) -> None:
        """Give every query up."""
        tasks = [line.task for line in self._lines.values() if line.task is not None]
        for line in self._lines.values():
            self._hang_up(line)
        self._lines.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, asked: DescribeLogDirs, line: _Line) -> None:
        connection = line.connection
        correlation_id = connection.next_correlation_id()
        try:
            request = encode_describe(asked.partitions, self._version, correlation_id, self._client_id)
            frame = await connection.ask(*request.chunks, timeout_s=self._answer_within_s)
            sizes = await self._decoded(frame)
            described = LogDirsDescribed(asked.broker, asked.broker_epoch, sizes)
        except Exception as error:  # whatever a broker answers, the caller must get an outcome
            connection.drop()
            reason = str(error) if isinstance(error, Broken | Malformed | Refused) else reason_of(error)
            described = LogDirsDescribed(asked.broker, asked.broker_epoch, {}, reason)
        line.idle = asyncio.get_running_loop().call_later(IDLE_S, connection.drop)
        self._emit(described)

    async def _decoded(self, frame: bytes) -> dict[TopicPartition, ReplicaSize]:
        """Decode on another thread if it is long enough to hold up the event loop."""
        if len(frame) <= _SHORT_BYTES:
            return decode_described(frame, self._version)
        return await asyncio.to_thread(decode_described, frame, self._version)

    @staticmethod
    def _hang_up(line: _Line) -> None:
        if line.idle is not None:
            line.idle.cancel()
        if line.task is not None:
            line.task.cancel()
        line.connection.retire()
