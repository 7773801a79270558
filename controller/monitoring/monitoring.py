"""How do the parts' observations become measures?"""

from __future__ import annotations

import asyncio
import platform
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import metadata

from msgspec import Struct, json

from controller import logs
from controller.core.candidacy.migrating import MigrationPhase
from controller.core.candidacy.phases import Phase
from controller.core.machine import Machine
from controller.core.messages.effects import Commit, Effect, Measured, Notice, Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import CommitId, Committed, Conflicted, Event, Fenced, Observed, Unknown
from controller.core.messages.replies import OngoingMove, ReassignmentsListed, Reply
from controller.core.messages.requests import Caller, ListReassignments, Request
from controller.http.status import Status
from controller.monitoring.expected import OUTCOMES, expect
from controller.runtime.loop import LongestBusy
from controller.runtime.pump import Took
from controller.runtime.supervision import Troubles, supervised
from metrics.recorder import Recorder
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, PartitionId, Replicas, RequestId, TopicName
from zk_layout.znodes.reassignment_status import MoveProgress

GAUGES_EVERY_S = 1.0
PART = "figures"
OF_MOVES_BY_BROKER = (
    "reassignment_remaining_bytes",
    "reassignment_bytes_per_second",
    "reassignment_throttle_bytes_per_second",
)
OF_MOVES = ("reassignment_longest_stage_seconds", "open_reassignment_requests")

CALLER = Caller(listener="HTTP", address="")


class ListedMove(Struct, frozen=True):
    """One move in progress, as shown over HTTP."""

    topic: TopicName
    partition: PartitionId
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    progress: MoveProgress | None


def _encoded(moves: Sequence[OngoingMove]) -> bytes:
    return json.encode([ListedMove(*m.topic_partition, m.replicas, m.adding, m.removing, m.progress) for m in moves])


class Turns:
    """Observes the machine's turns."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._sent: dict[CommitId, float] = {}

    def turned(self, now: float, events: Sequence[Event], effects: Sequence[Effect], took: Took, left: int) -> None:
        """Count one turn."""
        record = self._recorder.record
        record("turn_seconds", took.wall_s)
        record("turn_cpu_seconds", took.cpu_s)
        record("turn_events", len(events))
        record("event_queue_depth", left)
        for event in events:
            self._received(event, now)
        if effects:
            self._followed(effects, now)

    def _followed(self, effects: Sequence[Effect], now: float) -> None:
        record = self._recorder.record
        told, written = Counter[str](), Counter[str]()
        for effect in effects:
            if isinstance(effect, Tell):
                told[type(effect.command).__name__] += 1
            elif isinstance(effect, Commit):
                self._sent[effect.commit] = now
                written.update(catalog.kind_of(write.address) for write in effect.writes)
        for measure, counted in (("broker_commands", told), ("zookeeper_writes", written)):
            for kind, count in counted.items():
                record(measure, count, (kind,))

    def _received(self, event: Event, now: float) -> None:
        if isinstance(event, Observed):
            self._recorder.record("zookeeper_znodes_read", len(event.facts))
        elif isinstance(event, Committed | Conflicted | Fenced | Unknown):
            self._recorder.record("zookeeper_transactions", 1, (OUTCOMES[type(event)],))
            sent = self._sent.pop(event.commit, None)
            if sent is not None:
                self._recorder.record("zookeeper_transaction_seconds", now - sent)

    def forget(self) -> None:
        """A term is over: what it sent is counted as having no outcome."""
        self._sent.clear()


class LinkMeasures:
    """Observes the links to brokers."""

    def __init__(self, recorder: Recorder) -> None:
        self._record, self._expect = recorder.record, recorder.expect
        self._known: set[BrokerId] = set()

    def depth_changed(self, broker: BrokerId, depth: int) -> None:
        """Show how many commands a broker has not acknowledged. A broker's counters begin with its first command."""
        if broker not in self._known:
            self._known.add(broker)
            for counter in ("broker_request_bytes", "broker_delivery_retries"):
                self._expect(counter, ((str(broker),),))
        self._record("broker_queue_depth", depth, (str(broker),))

    def delivered(self, broker: BrokerId, size_bytes: int) -> None:
        """Count the bytes."""
        self._record("broker_request_bytes", size_bytes, (str(broker),))

    def acknowledged(self, broker: BrokerId, command: str, took_s: float) -> None:  # noqa: ARG002 (by kind is enough)
        """Record how long the answer took."""
        self._record("broker_command_seconds", took_s, (command,))

    def failed(self, broker: BrokerId, reason: str) -> None:  # noqa: ARG002 (the link logs it)
        """Count a failed attempt. The link repeats it and logs the reason."""
        self._record("broker_delivery_retries", 1, (str(broker),))


class ServerMeasures:
    """Observes the listeners."""

    def __init__(self, recorder: Recorder, api_name: Callable[[int], str]) -> None:
        self._record = recorder.record
        self._api_name = api_name

    def answered(self, listener: str, api_key: int, took_s: float) -> None:
        """Count and time one answer."""
        self._record("requests", 1, (self._api_name(api_key), listener))
        self._record("request_seconds", took_s, (self._api_name(api_key),))

    def connections_changed(self, count: int) -> None:
        """Show the open connections."""
        self._record("connections", count)

    def client_disconnected(self, reason: str) -> None:
        """Count a client that was disconnected or turned away."""
        self._record("clients_disconnected", 1, (reason,))


class Monitoring:
    """All observers of one process; `controller.http.server.Exporter` shows what they saw."""

    def __init__(
        self, api_name: Callable[[int], str], troubles: Troubles | None = None, listeners: Iterable[str] = ()
    ) -> None:
        """`troubles` are counted; `listeners` are the names of this process's. Takes no gauge before `start`."""
        self.recorder = Recorder()
        expect(self.recorder, listeners)
        self.recorder.record("build_info", 1, (metadata.version("kafka-zk-controller"), platform.python_version()))
        self.turns = Turns(self.recorder)
        self.busy = LongestBusy()
        self.links = LinkMeasures(self.recorder)
        self.troubles = troubles or Troubles()
        self.troubles.count = lambda part: self.recorder.record("part_failures", 1, (part,))
        self.server = ServerMeasures(self.recorder, api_name)
        self.set_aside: tuple[str, ...] = ()
        self.held_up: tuple[str, ...] = ()
        self.refuses_clients: Callable[[], bool] = lambda: False
        """Whether brokers use an authorizer that this process does not have."""
        self.standby: Callable[[], Mapping[str, float]] = dict
        """The gauges of what a standby keeps in memory."""
        self.status: Callable[[], Status | None] = lambda: None
        """The state of this process."""
        self.beats: Callable[[], None] = lambda: None
        """Called whenever the gauges are updated: the event loop turns."""
        self._machine: Machine | None = None
        self._ask: Callable[[Request, Caller], Awaitable[Reply]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._dropped: dict[str, int] = {}

    def ask_through(self, ask: Callable[[Request, Caller], Awaitable[Reply]]) -> None:
        """Answer HTTP questions about moves through `ask`, as for clients."""
        self._ask = ask

    def start(self) -> None:
        """Update the gauges regularly from now on."""
        beating = supervised(PART, self._beat, self.troubles, again_after_s=GAUGES_EVERY_S)
        self._task = asyncio.create_task(beating)

    def stop(self) -> None:
        """Stop updating."""
        if self._task is not None:
            self._task.cancel()

    async def moves(self) -> bytes | None:
        """The moves in progress as JSON; None without a term."""
        reply = await self._list(ListReassignments(None))
        if reply is None:
            return None
        return await asyncio.to_thread(_encoded, reply.moves)  # the list may be very long

    async def request(self, number: int) -> bytes | None:
        """The state of a request as JSON; None if it is not known."""
        reply = await self._list(ListReassignments((), RequestId(number)))
        return None if reply is None or reply.request_status is None else json.encode(reply.request_status)

    async def _list(self, request: ListReassignments) -> ReassignmentsListed | None:
        """Ask as any client does; None if this process does not lead or is still loading."""
        if self._machine is None or not self._machine.snapshot().is_loaded or self._ask is None:
            return None
        reply = await self._ask(request, CALLER)
        return reply if isinstance(reply, ReassignmentsListed) and reply.error is ErrorCode.NONE else None

    def noticed(self, notice: Notice) -> None:
        """Count a notice."""
        self.recorder.record("notices", 1, (notice.kind,))

    def measured(self, figure: Measured) -> None:
        """Record a figure of the machine."""
        self.recorder.record(figure.measure, figure.value, figure.labels)

    def term_began(self, epoch: ControllerEpoch, machine: Machine) -> None:
        """A term begins: the gauges show its machine's figures."""
        self._machine = machine
        self.recorder.record("elections_won")
        self.recorder.record("is_leader", 1)
        self.recorder.record("controller_epoch", epoch)
        self.recorder.record("term_started_timestamp_seconds", time.time())

    def observing_began(self, machine: Machine) -> None:
        """A dry term has loaded: the gauges of the cluster show its machine's figures."""
        self._machine = machine
        self.take_gauges()

    def observing_ended(self) -> None:
        """A dry term is over: nothing of the cluster is known."""
        self._forget_cluster()

    def take_gauges(self) -> None:
        """Publish current figures; a serving term always has some."""
        snapshot = None if self._machine is None else self._machine.snapshot()
        if self._machine is not None and snapshot is not None and snapshot.is_loaded:
            for name, value in self._machine.figures().items():
                self.recorder.record(name, value)
            self.set_aside = self._machine.quarantined()
            self.held_up = self._machine.held_up()
            self.recorder.record("zookeeper_transactions_in_flight", snapshot.in_flight)

    def term_ended(self) -> None:
        """A term is over: a process that does not lead shows nothing of the cluster, as a Kafka broker does."""
        if self._machine is not None:
            self.recorder.record("terms_ended")
        self._forget_cluster()
        self.turns.forget()
        for name in (
            "is_leader",
            "term_started_timestamp_seconds",
            "zookeeper_transactions_in_flight",
            "event_queue_depth",
        ):
            self.recorder.record(name, 0)

    def _forget_cluster(self) -> None:
        if self._machine is not None:
            for name in self._machine.figures():
                self.recorder.record(name, 0)
            for name in OF_MOVES_BY_BROKER:
                self.recorder.forget(name)
            for name in OF_MOVES:
                self.recorder.record(name, 0)
        self._machine, self.set_aside, self.held_up = None, (), ()

    def _show(self, status: Status | None) -> None:
        if status is None:
            return
        self.recorder.record("is_ready", int(status.is_ready))
        self.recorder.record("is_observing", int(status.is_observing))
        self.recorder.record("released", int(status.is_released))
        self.recorder.record("paused_timestamp_seconds", status.paused_since)
        self.recorder.record("settings_pending_restart", len(status.settings_pending))
        for phase in Phase:
            self.recorder.record("phase", int(phase.value == status.phase), (phase.value,))
        for migration in MigrationPhase:
            self.recorder.record("migration_phase", int(migration.value == status.migration), (migration.value,))

    async def _beat(self) -> None:
        """Update once. A figure that cannot be taken must not make a live process look stuck."""
        self.beats()
        busy = self.busy.take()
        self.recorder.record("loop_seconds", busy.wall_s)
        self.recorder.record("loop_cpu_seconds", busy.cpu_s)
        for reason, count in logs.lost().items():
            self.recorder.record("log_lines_dropped", count - self._dropped.get(reason, 0), (reason,))
            self._dropped[reason] = count
        self.recorder.expect("part_failures", ((part,) for part in self.troubles.parts))
        self.recorder.record("failing_parts", len(self.troubles.now()))
        self._show(self.status())
        for name, value in self.standby().items():
            self.recorder.record(name, value)
        self.take_gauges()
        self.recorder.record("clients_refused", int(self.refuses_clients()))
