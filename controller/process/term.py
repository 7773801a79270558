"""What happens between a won election and its end? One machine decides, and the other parts carry out its effects."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
from msgspec import Struct

from controller.brokers.configs import BrokerConfigs
from controller.brokers.links import Links
from controller.brokers.log_dirs import LogDirs
from controller.brokers.log_ends import LogEnds
from controller.brokers.observing import LinkObserver
from controller.connections.broker import Dialer
from controller.core.candidacy import events
from controller.core.machine import Machine
from controller.core.messages import effects
from controller.core.messages.commands import LiveBroker
from controller.core.messages.events import ClockShown, Event, ResignationAsked, SettingsChanged
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.state.cluster import ClusterState
from controller.following.facts import Facts
from controller.monitoring import moves_log
from controller.monitoring.audit_trail import AuditTrail
from controller.runtime import journal
from controller.runtime.clock import Clock
from controller.runtime.pump import Pump, TurnObserver
from controller.runtime.reclaiming import loading
from controller.wire.commands import CommandEncoder
from controller.wire.versions import InterBrokerProtocol
from controller.zk.answers import SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.writer import Writer
from zk_layout.ids import ControllerEpoch

_log = structlog.get_logger(__name__)

Happened = Callable[[events.TermEvent], None]


class Counter(Protocol):
    """Receives notices, counted by kind, and the machine's measurements."""

    def noticed(self, notice: effects.Notice) -> None:
        """Count a notice."""

    def measured(self, figure: effects.Measured) -> None:
        """Record a measurement."""


class Channels(Protocol):
    """Sends commands to brokers: `controller.brokers.links.Links`."""

    def connect(self, connect: effects.Connect) -> None:
        """Open a link to one registration of a broker."""

    def disconnect(self, disconnect: effects.Disconnect) -> None:
        """Close the link and drop its queue."""

    def tell(self, tell: effects.Tell) -> None:
        """Queue a command."""

    def are_commands_queued(self) -> bool:
        """Whether a command waits behind one that its broker has not answered."""

    async def drain(self, timeout_s: float) -> bool:
        """Wait until brokers have acknowledged every command. False on a timeout."""

    def answer_within(self, timeout_s: float) -> None:
        """Give brokers so long for each answer from now on."""

    def cut_short(self) -> None:
        """Stop waiting for brokers."""

    async def close(self) -> None:
        """Close every link."""


class Inspector(Protocol):
    """Queries brokers for sizes of replicas and for room: `controller.brokers.log_dirs.LogDirs`."""

    def describe(self, asked: effects.DescribeLogDirs) -> None:
        """Query one broker."""

    def describe_disks(self, asked: effects.DescribeDisks) -> None:
        """Ask one broker for the room of its disks."""

    async def close(self) -> None:
        """Stop querying."""


class ConfigInspector(Protocol):
    """Queries brokers for settings of their own: `controller.brokers.configs.BrokerConfigs`."""

    def describe(self, asked: effects.DescribeBrokerConfig) -> None:
        """Query one broker."""

    async def close(self) -> None:
        """Stop querying."""


class EndsInspector(Protocol):
    """Queries brokers for the ends of their logs: `controller.brokers.log_ends.LogEnds`."""

    def describe(self, asked: effects.DescribeLogEnds) -> None:
        """Query one broker."""

    async def close(self) -> None:
        """Stop querying."""


def new_machine(settings: MachineSettings, epoch: ControllerEpoch, seed: bytes, state: ClusterState) -> Machine:
    """The machine of a term."""
    return Machine(settings, epoch, SeededRandom(seed), state=state)


def new_links(parts: TermParts, emit: Callable[[Event], None], on_broken: Callable[[BaseException], None]) -> Channels:
    """Links for commands to brokers, built from the term's settings."""
    own_id, listener = parts.machine_settings.own_id, parts.inter_broker_listener
    encoder = CommandEncoder(own_id, parts.protocol, listener)
    return Links(
        encoder,
        listener,
        emit,
        parts.link_observer,
        parts.request_timeout_s,
        dialer=parts.dialer,
        on_broken=on_broken,
        control_plane_listener=parts.control_plane_listener,
    )


def new_log_dirs(parts: TermParts, emit: Callable[[Event], None]) -> Inspector:
    """The queries for sizes of replicas."""
    client_id = f"controller-{parts.machine_settings.own_id}"
    version = parts.protocol.describe_log_dirs
    return LogDirs(parts.inter_broker_listener, version, client_id, emit, dialer=parts.dialer)


def new_broker_configs(parts: TermParts, emit: Callable[[Event], None]) -> ConfigInspector:
    """The queries for settings of brokers."""
    return BrokerConfigs(parts.inter_broker_listener, emit, dialer=parts.dialer)


def new_log_ends(parts: TermParts, emit: Callable[[Event], None]) -> EndsInspector:
    """The queries for ends of logs."""
    return LogEnds(parts.inter_broker_listener, emit, dialer=parts.dialer)


class Quotas(Protocol):
    """The quotas on topic changes: `controller.following.quotas.QuotasFollower`."""

    def begin_term(self, emit: Callable[[Event], None]) -> None:
        """Send a term all quotas known, then every change."""

    def end_term(self) -> None:
        """Stop sending."""


class TermParts(Struct):
    """What a term needs of the process that holds it.

    Shape:
        `facts` have been handed to no other term, and are of the session of the claim; so is `bridge`. Brokers are
        commanded over `control_plane_listener`, if it is not empty and they have it.

    Units:
        `request_timeout_s` and `drain_timeout_s` are in seconds.
    """

    bridge: Bridge
    facts: Facts
    machine_settings: MachineSettings
    protocol: InterBrokerProtocol
    inter_broker_listener: str
    request_timeout_s: float
    request_limit_bytes: int
    drain_timeout_s: float
    answer: Callable[[effects.Answer], None]
    counter: Counter
    link_observer: LinkObserver
    turn_observers: tuple[TurnObserver, ...]
    journal: journal.Journal | None = None
    dialer: Dialer | None = None
    quotas: Quotas | None = None
    control_plane_listener: str = ""
    decided: Callable[[effects.Decided], None] = lambda _: None
    new_machine: Callable[[MachineSettings, ControllerEpoch, bytes, ClusterState], Machine] = new_machine
    new_links: Callable[[TermParts, Callable[[Event], None], Callable[[BaseException], None]], Channels] = new_links
    new_log_dirs: Callable[[TermParts, Callable[[Event], None]], Inspector] = new_log_dirs
    new_broker_configs: Callable[[TermParts, Callable[[Event], None]], ConfigInspector] = new_broker_configs
    new_log_ends: Callable[[TermParts, Callable[[Event], None]], EndsInspector] = new_log_ends
    random_bytes: Callable[[int], bytes] = os.urandom
    wall_clock: Callable[[], float] = time.time


class Term:
    """One term. `happened` is called once the state is loaded, and once with the reason if the term must not continue;
    the caller then ends it."""

    def __init__(self, parts: TermParts, claimed: events.Claimed, happened: Happened) -> None:
        """Build every part; nothing runs yet."""
        self.epoch = claimed.epoch
        self.fence = claimed.fence_version
        self._is_over = False
        self._parts = parts
        self._happened = happened
        seed = parts.random_bytes(32)
        state = parts.facts.hand_over(self.emit, self._notice)
        self.machine = parts.new_machine(parts.machine_settings, claimed.epoch, seed, state)
        if parts.journal is not None:
            parts.journal.begin(journal.Term(parts.machine_settings, claimed.epoch, seed))
        self._reader = parts.facts.reader
        self._writer = Writer(
            parts.bridge,
            self.emit,
            fence_version=claimed.fence_version,
            max_request_bytes=parts.request_limit_bytes,
            deleted=self._reader.forget,
            lives=self._reader.lives,
        )
        self.links = parts.new_links(parts, self.emit, self._broken)
        self._log_dirs = parts.new_log_dirs(parts, self.emit)
        self._broker_configs = parts.new_broker_configs(parts, self.emit)
        self._log_ends = parts.new_log_ends(parts, self.emit)
        self._audit = AuditTrail(asyncio.get_running_loop().call_later)
        self._pump = Pump(
            self.machine,
            {
                effects.Commit: self._commit,
                effects.Read: self._reader.read,
                effects.ReadChildren: self._read_children,
                effects.ReadAgain: self._reader.read_again,
                effects.Survey: self._reader.survey,
                effects.Connect: self.links.connect,
                effects.Disconnect: self.links.disconnect,
                effects.Tell: self.links.tell,
                effects.DescribeLogDirs: self._log_dirs.describe,
                effects.DescribeDisks: self._log_dirs.describe_disks,
                effects.DescribeBrokerConfig: self._broker_configs.describe,
                effects.DescribeLogEnds: self._log_ends.describe,
                effects.Answer: parts.answer,
                effects.Notice: self._notice,
                effects.Measured: parts.counter.measured,
                effects.Recorded: self._audit.record,
                effects.RequestAccounted: moves_log.request,
                effects.MoveAccounted: moves_log.move,
                effects.Decided: parts.decided,
                effects.Differed: lambda _: None,  # only a machine that observes compares
                effects.StepDown: self._step_down,
                effects.Drained: lambda _: self._end(events.TermDrained()),
            },
            Clock(asyncio.get_running_loop()),
            self._broken,
            observers=(*parts.turn_observers, self._audit, *([parts.journal] if parts.journal is not None else [])),
            are_commands_queued=self.links.are_commands_queued,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Start the machine and load the state from ZooKeeper; `TermLoaded` follows."""
        if self._parts.quotas is not None:
            self._parts.quotas.begin_term(self.emit)
        self._tasks = [asyncio.create_task(self._pump.run()), asyncio.create_task(self._load())]

    def emit(self, event: Event) -> None:
        """Pass the machine an event: a client's request, or a report from a part of this term."""
        self._pump.emit(event)

    def adjust(self, settings: MachineSettings, request_timeout_s: float, drain_timeout_s: float) -> None:
        """Follow settings that have changed."""
        self._parts.drain_timeout_s = drain_timeout_s
        self.links.answer_within(request_timeout_s)
        self.emit(SettingsChanged(settings))

    def resign(self) -> None:
        """Take no new decisions; `TermDrained` follows once nothing is in flight."""
        self._pump.emit(ResignationAsked())

    def live_brokers(self) -> Sequence[LiveBroker] | None:
        """The live brokers, without replicas of ours; None while the state is being loaded."""
        snapshot = self.machine.snapshot()
        return snapshot.live_brokers if snapshot.is_loaded else None

    async def end(self, *, is_graceful: bool) -> None:
        """Stop every part. If graceful, first deliver the commands already queued for brokers."""
        if self._parts.quotas is not None:
            self._parts.quotas.end_term()
        self._reader.stop()
        self._pump.stop()
        if is_graceful and not await self.links.drain(self._parts.drain_timeout_s):
            _log.warning("some brokers have not acknowledged all commands", waited_s=self._parts.drain_timeout_s)
        await self.links.close()
        await self._log_dirs.close()
        await self._broker_configs.close()
        await self._log_ends.close()
        self._audit.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _load(self) -> None:
        started = self._now()
        try:
            with loading():
                await self._parts.facts.load()
        except SessionEnded as error:
            self._end(events.TermSessionEnded(str(error)))
            return
        except Exception as error:
            self._broken(error)
            return
        self._parts.counter.measured(effects.Measured("term_loading_seconds", self._now() - started))
        self._happened(events.TermLoaded(f"loaded in {self._now() - started:.2f} s"))
        try:
            await self._reader.wait()
        except SessionEnded as error:
            self._end(events.TermSessionEnded(str(error)))
        except Exception as error:
            self._broken(error)

    def _read_children(self, effect: effects.ReadChildren) -> None:
        self.emit(ClockShown(round(self._parts.wall_clock() * 1000)))
        self._reader.read_children(effect)

    def _commit(self, commit: effects.Commit) -> None:
        for why in commit.why[:3]:
            _log.debug("commit", commit=commit.commit, why=why)
        if len(commit.why) > len(commit.why[:3]):
            _log.debug("commit", commit=commit.commit, more=len(commit.why) - 3)
        self._writer.submit(commit)

    def _notice(self, notice: effects.Notice) -> None:
        self._parts.counter.noticed(notice)
        _log.warning(notice.text, kind=notice.kind)

    def _broken(self, error: BaseException) -> None:
        _log.error("an invariant is violated; this process steps down", exc_info=error)
        self._end(events.TermFailed(f"{type(error).__name__}: {error}"))

    def _step_down(self, effect: effects.StepDown) -> None:
        if effect.surpass >= 0:
            self._end(events.TermSurpassed(effect.reason, effect.surpass))
        else:
            self._end(events.TermFailed(effect.reason, effect.is_outranked))

    def _end(self, event: events.TermEvent) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._reader.stop()
        self._pump.stop()
        self._happened(event)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
