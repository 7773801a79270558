"""What would this process decide and show if it led? One machine over the same facts, from which nothing goes out.

No transaction is sent to ZooKeeper and no command to a broker: there is no part here that could. Brokers count as if
they had accepted each command at once. They are only asked for the sizes of replicas that move, which changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog
from msgspec import Struct

from controller.brokers.log_dirs import LogDirs
from controller.connections.broker import Dialer
from controller.core.machine import Machine
from controller.core.messages import effects
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, ClockShown, Event, Observed
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.following.facts import Facts
from controller.process.unsent import Unsent
from controller.runtime.clock import Clock
from controller.runtime.pump import Pump, TurnObserver
from controller.runtime.reclaiming import loading
from controller.wire.versions import InterBrokerProtocol
from controller.zk.bulk import BulkReader
from controller.zk.read_only import ReadOnlyBridge
from controller.zk.state_watch import StateWatch
from zk_layout.ids import ControllerEpoch
from zk_layout.watched import watched

EPOCH: Final = ControllerEpoch(2**31 - 1)
"""Above that of any controller that leads meanwhile. It is written nowhere."""
TURN_S: Final = 0.01
OF_WRITES: Final = frozenset({"unclean_elections", "delegation_tokens_expired"})
"""Measures of what a leader has done."""

_log = structlog.get_logger(__name__)


class Counter(Protocol):
    """Receives the machine's measurements."""

    def measured(self, figure: effects.Measured) -> None:
        """Record a measurement."""


class DryTermParts(Struct):
    """What a dry term needs of the process that holds it."""

    bridge: ReadOnlyBridge
    machine_settings: MachineSettings
    protocol: InterBrokerProtocol
    inter_broker_listener: str
    answer: Callable[[effects.Answer], None]
    differed: Callable[[effects.Differed], None]
    counter: Counter
    turn_observers: tuple[TurnObserver, ...]
    dialer: Dialer


class DryTerm:
    """A term that leads nothing, for the life of one session and of one set of the brokers' settings."""

    def __init__(self, parts: DryTermParts) -> None:
        """Build every part; nothing runs yet."""
        self._parts = parts
        settings, bridge = parts.machine_settings, parts.bridge
        what = watched(follows_reassignments=settings.keeps_reassignment_znodes)
        facts = Facts(bridge, what, bulk=BulkReader(bridge, request_bytes=settings.znode_size_limit // 2))
        state = facts.hand_over(self._hear, self._notice)
        self.machine = Machine(settings, EPOCH, SeededRandom(os.urandom(32)), state=state)
        self._facts, self._reader = facts, facts.reader
        self._states = StateWatch(bridge, self._reader.read)
        self._unsent = Unsent(self.emit)
        self._log_dirs = LogDirs(
            parts.inter_broker_listener,
            parts.protocol.describe_log_dirs,
            f"observer-{settings.own_id}",
            self.emit,
            dialer=parts.dialer,
        )
        self._is_broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pump = Pump(
            self.machine,
            self._performers(),
            Clock(asyncio.get_running_loop()),
            self._broken,
            observers=parts.turn_observers,
        )
        self._pumping: asyncio.Task[None] | None = None

    def _performers(self) -> dict[type, Callable[[Any], None]]:
        return {
            effects.Commit: self._unsent.submit,
            effects.Tell: self._accepted,
            effects.Read: self._reader.read,
            effects.ReadChildren: self._read_children,
            effects.ReadAgain: self._reader.read_again,
            effects.Survey: self._reader.survey,
            effects.DescribeLogDirs: self._log_dirs.describe,
            effects.DescribeDisks: self._log_dirs.describe_disks,
            effects.Answer: self._parts.answer,
            effects.Differed: self._parts.differed,
            effects.Notice: self._notice,
            effects.Measured: self._measured,
            effects.StepDown: lambda effect: self._broken(RuntimeError(effect.reason)),
            **dict.fromkeys(
                (
                    effects.Connect,
                    effects.Disconnect,
                    effects.DescribeBrokerConfig,  # only before a throttled move begins
                    effects.DescribeLogEnds,  # only while one copies
                    effects.Recorded,
                    effects.Decided,
                    effects.Drained,
                ),
                _nothing,
            ),
            **dict.fromkeys((effects.RequestAccounted, effects.MoveAccounted), _nothing),
        }

    async def live(self, loaded: Callable[[], None]) -> None:
        """Load the state, call `loaded`, and follow it until the session ends.

        Raises:
            SessionEnded: the session has expired.
            Refused: ZooKeeper does not let us list what is indispensable.
        """
        started = time.monotonic()
        since = await self._states.prepare()
        self._pumping = asyncio.create_task(self._pump.run())
        with loading():
            await self._facts.load()
        await self._states.begin(since)
        while not self.machine.snapshot().is_loaded and not self._is_broken.done():
            await asyncio.sleep(TURN_S)
        took_s = time.monotonic() - started
        self._parts.counter.measured(effects.Measured("term_loading_seconds", took_s))
        _log.info("following the cluster", loaded_s=round(took_s, 2), states_watched=self._states.count)
        loaded()
        reading = asyncio.ensure_future(self._reader.wait())
        try:
            await asyncio.wait([reading, self._is_broken], return_when=asyncio.FIRST_COMPLETED)
            for ended in (reading, self._is_broken):
                if ended.done():
                    ended.result()
        finally:
            reading.cancel()

    def emit(self, event: Event) -> None:
        """Pass the machine an event."""
        self._pump.emit(event)

    def renew(self) -> None:
        """End, so that another dry term can begin with the settings that brokers have now."""
        self._reader.stop()

    async def end(self) -> None:
        """Stop every part."""
        self._states.stop()
        self._reader.stop()
        self._unsent.stop()
        self._pump.stop()
        self._is_broken.cancel()
        await self._log_dirs.close()
        if self._pumping is not None:
            self._pumping.cancel()
            await asyncio.gather(self._pumping, return_exceptions=True)

    def _hear(self, event: Event) -> None:
        self.emit(event)
        if isinstance(event, Observed):
            self._states.saw(event.facts)
            self._unsent.saw(event.facts)

    def _accepted(self, tell: effects.Tell) -> None:
        self.emit(Acknowledged(tell.broker, tell.broker_epoch, tell.command, ErrorCode.NONE))

    def _read_children(self, effect: effects.ReadChildren) -> None:
        self.emit(ClockShown(round(time.time() * 1000)))
        self._reader.read_children(effect)

    def _measured(self, figure: effects.Measured) -> None:
        if figure.measure not in OF_WRITES:
            self._parts.counter.measured(figure)

    @staticmethod
    def _notice(notice: effects.Notice) -> None:
        _log.info("a leading replica would report", kind=notice.kind, text=notice.text)

    def _broken(self, error: BaseException) -> None:
        self._pump.stop()
        if not self._is_broken.done():
            self._is_broken.set_exception(error)


def _nothing(_: object) -> None:
    """Nothing goes out, and nothing was done that could be recorded."""
