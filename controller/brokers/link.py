"""How do commands reach one registration of a broker: each of them, in order, one at a time?

Source: Kafka's RequestSendThread in ControllerChannelManager.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog
from msgspec import Struct
from msgspec.structs import replace
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential, wait_random

from controller.brokers.joining import Joining
from controller.brokers.observing import LinkObserver
from controller.brokers.rounds import Rounds
from controller.connections.broker import Broken, BrokerConnection, Dialer
from controller.core.messages.commands import UpdateMetadata
from controller.core.messages.effects import Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged
from controller.runtime.supervision import reason_of
from controller.wire.commands import CommandEncoder, CommandRequest
from controller.wire.cursor import Malformed
from zk_layout.ids import BrokerEpoch, BrokerId, TopicPartition
from zk_layout.znodes.brokers import Endpoint

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 1.0
_MOST_REQUESTS = 2  # for one command: see `CommandEncoder.encode`

_log = structlog.get_logger(__name__)


class Terms(Struct):
    """What all links share. Only `timeout_s` may change.

    Units:
        `timeout_s`: Kafka's `controller.socket.timeout.ms`, for connecting and for each answer.
    """

    encoder: CommandEncoder
    dialer: Dialer
    emit: Callable[[Acknowledged], None]
    observer: LinkObserver
    rounds: Rounds
    joining: Joining
    timeout_s: float = 30.0


class Link:
    """The channel to one registration of a broker.

    A command is delivered at least once and before all later ones: after any failure the same bytes are sent again
    until the broker answers or the link is closed. Epochs let brokers tolerate repetitions. A command is encoded when
    its turn comes, so that the queue for a broker that does not answer holds only values. Metadata that have queued up
    by then are sent as one command.
    """

    def __init__(self, broker: BrokerId, broker_epoch: BrokerEpoch, endpoint: Endpoint, terms: Terms) -> None:
        """Starts sending at once; needs a running event loop."""
        self.broker = broker
        self.broker_epoch = broker_epoch
        self._terms = terms
        self._connection = BrokerConnection(terms.dialer, endpoint)
        self._queue: deque[Tell] = deque()
        self._stirred = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self.task = self._loop.create_task(self._deliver_all(), name=f"link to broker {broker}")

    @property
    def depth(self) -> int:
        """How many commands are not acknowledged, including the one in flight."""
        return len(self._queue)

    def tell(self, tell: Tell) -> None:
        """Queue a command behind all others."""
        self._queue.append(tell)
        self._idle.clear()
        self._stirred.set()
        self._terms.observer.depth_changed(self.broker, len(self._queue))

    def readdress(self, endpoint: Endpoint) -> None:
        """The same registration now has another address; what is in flight is sent there again."""
        self._connection.retire()
        self._connection = BrokerConnection(self._terms.dialer, endpoint)

    async def until_idle(self) -> None:
        """Wait until every command has been acknowledged."""
        await self._idle.wait()

    def close(self) -> None:
        """Drop the connection and all that is queued."""
        self._is_closed = True
        self.task.cancel()
        self._connection.retire()
        self._queue.clear()
        self._idle.set()
        self._terms.observer.depth_changed(self.broker, 0)

    async def _deliver_all(self) -> None:
        try:
            while True:
                while not self._queue:
                    self._stirred.clear()
                    await self._stirred.wait()
                await self._deliver()
        finally:
            self._connection.drop()

    async def _deliver(self) -> None:
        """Send the first command of the queue, perhaps joined with others right behind it."""
        terms, began = self._terms, self._loop.time()
        tell, told = terms.joining.first(self._queue)
        await terms.rounds.take(tell.command)
        sent, unsendable, requests = self._encode(tell)
        acknowledged = await self._until_acknowledged(sent, requests)
        for _ in told:
            self._queue.popleft()
        terms.observer.acknowledged(self.broker, type(tell.command).__name__, self._loop.time() - began)
        terms.observer.depth_changed(self.broker, len(self._queue))
        for one in told:
            terms.emit(_of_one(one, acknowledged, unsendable))
        if not self._queue:
            self._idle.set()

    def _encode(self, tell: Tell) -> tuple[Tell, tuple[TopicPartition, ...], tuple[CommandRequest, ...]]:
        """A partition that cannot be encoded is left out, and counts as refused by the broker."""
        encoder, number = self._terms.encoder, self._connection.next_correlation_id(_MOST_REQUESTS)
        try:
            return tell, (), encoder.encode(tell, number)
        except Exception as error:  # an invalid partition must not affect the others
            sent, unsendable = encoder.encodable(tell)
            named = ", ".join(map(str, unsendable[:5]))
            _log.error("partitions cannot be sent to a broker", broker=self.broker, partitions=named, exc_info=error)
            return sent, unsendable, encoder.encode(sent, number)

    async def _until_acknowledged(self, tell: Tell, requests: tuple[CommandRequest, ...]) -> Acknowledged:
        try:
            return await self._attempt(tell, requests)
        except Exception as error:  # whatever a dialer or an answer causes
            failed = [error]

        async def attempt() -> Acknowledged:
            if failed:
                raise failed.pop()  # the first attempt, which nearly always succeeds: retrying costs more than asking
            return await self._attempt(tell, requests)

        return await self._again_and_again()(attempt)

    async def _attempt(self, tell: Tell, requests: tuple[CommandRequest, ...]) -> Acknowledged:
        try:
            return await self._exchange(tell, requests)
        finally:
            if self._is_closed:
                # A dialer or a library may have swallowed the cancellation; the answer is no longer needed.
                raise asyncio.CancelledError

    async def _exchange(self, tell: Tell, requests: tuple[CommandRequest, ...]) -> Acknowledged:
        connection, terms = self._connection, self._terms
        frames: list[bytes] = []
        for request in requests:
            frames.append(await connection.ask(*request.chunks, timeout_s=terms.timeout_s))
            terms.observer.delivered(self.broker, sum(map(len, request.chunks)))
        try:
            return terms.encoder.decode_acknowledgement(tell, *frames)
        except Malformed:
            connection.drop()
            raise

    def _again_and_again(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception_type(Exception),  # whatever a dialer or an answer causes
            wait=wait_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S) + wait_random(0, FIRST_WAIT_S),
            before_sleep=self._note_failure,
        )

    def _note_failure(self, state: RetryCallState) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert error is not None
        reason = str(error) if isinstance(error, Broken | Malformed) else reason_of(error)
        self._terms.observer.failed(self.broker, reason)
        # Log the first failure, then ever more rarely.
        if state.attempt_number & (state.attempt_number - 1) == 0:
            _log.warning(
                "broker did not acknowledge a command; retrying",
                broker=self.broker,
                reason=reason,
                attempts=state.attempt_number,
                queued=len(self._queue),
            )


def _of_one(told: Tell, acknowledged: Acknowledged, unsendable: tuple[TopicPartition, ...]) -> Acknowledged:
    """What the answer means for one of the commands that were sent together."""
    if told.command is acknowledged.command:
        return acknowledged  # sent alone, and whole
    command = told.command
    if isinstance(command, UpdateMetadata):
        listed = {TopicPartition(seen.topic, seen.partition) for seen in command.partitions}
        unsendable = tuple(at for at in unsendable if at in listed)
    errors = {**acknowledged.errors, **dict.fromkeys(unsendable, ErrorCode.UNKNOWN_SERVER_ERROR)}
    return replace(acknowledged, command=command, errors=errors)
