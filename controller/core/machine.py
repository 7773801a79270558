"""What follows from what happened? One term of the controller as one function: events in, effects out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from msgspec import Struct

from controller.core.clients.authorization import Authorizer
from controller.core.duties import all_duties
from controller.core.memory import Memory
from controller.core.messages import commands, effects, events, requests
from controller.core.messages.errors import ErrorCode
from controller.core.messages.outbox import Outbox
from controller.core.scheduling.quarantine import described
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.state.cluster import ClusterState
from controller.core.transactions.back_off import LONGEST_WAIT_S
from controller.core.transactions.owner import TryAgain, facts_below, facts_of, may_be_deleted_unseen
from controller.core.turn.at_rest import AtRest
from controller.core.turn.duty import Duty, overriding
from controller.core.turn.event_queue import EventQueue
from controller.core.turn.intake import Intake
from controller.core.turn.shared import at_beginning
from controller.core.turn.surpassing import surpass
from zk_layout.catalog import Address
from zk_layout.facts import Fact
from zk_layout.ids import ControllerEpoch, TopicName, Zxid


class Snapshot(Struct, frozen=True):
    """What the process may know of a term after a turn.

    Shape:
        `in_flight` counts unanswered transactions; `live_brokers` are the real brokers that are not shutting down.
    """

    is_loaded: bool
    in_flight: int
    live_brokers: tuple[commands.LiveBroker, ...]


class Machine:
    """One term: from the won election to its end.

    A turn does a bounded amount of work, so that it never blocks the process for long; `Again` requests another turn
    for the rest.

    The state is what ZooKeeper said. Memory of work in progress, and of what brokers and clients said, may be lost with
    the machine: that costs a repetition, never correctness.

    An error in a decision about a topic, a request, an answer, an alarm or an outcome quarantines that subject alone.
    An error while folding, following or announcing facts leaves state and memory inconsistent: `turn` raises it, and
    the term must end.
    """

    def __init__(
        self,
        settings: MachineSettings,
        controller_epoch: ControllerEpoch,
        random: SeededRandom,
        is_allowed: Authorizer | None = None,
        state: ClusterState | None = None,
    ) -> None:
        """Begin a term that has loaded nothing. Without `is_allowed`, the settings choose the authorizer.

        `state` was folded before the term and belongs to this machine from now on. Nothing follows from it until
        `Loaded` says that it is as ZooKeeper was after the claim.
        """
        self._unanswered: dict[events.CallId, requests.Request] = {}
        memory = Memory(settings.own_id)
        shared = at_beginning(settings, controller_epoch, random, memory, is_allowed, state)
        self._state, self._cluster, self._transactions = shared.state, shared.cluster, shared.transactions
        self._quarantine, self._shared = shared.quarantine, shared
        self._at_rest = AtRest(self._cluster)
        self._queue = EventQueue(self._cluster.topics, self._transactions)
        self._intake = Intake(shared, self._unanswered)
        self._duties = all_duties(shared, memory, self._intake)
        self._serving = {request: duty for duty in self._duties for request in duty.requests}
        self._waking = {alarm: duty for duty in self._duties for alarm in duty.alarms}
        self._hearing = [(f"an answer for {_name(duty)}", duty) for duty in overriding(self._duties, "hear")]
        self._retracting = overriding(self._duties, "retract")
        self._amending = overriding(self._duties, "amend")
        self._following = overriding(self._duties, "follow")
        self._announcing = overriding(self._duties, "announce")
        self._proposing = [
            (f"what {_name(duty)} wants written", duty) for duty in overriding(self._duties, "propose", "drain")
        ]
        self._budget = settings.budget
        self._half_read = shared.transactions.half_read_topics
        self._is_loaded = self._is_draining = self._is_over = False

    def turn(self, happened: Sequence[events.Event], now: float) -> list[effects.Effect]:
        """Process what happened and return the effects.

        Shape:
            The caller must execute the effects in order.
        Units:
            `now` is in monotonic seconds.
        """
        out = Outbox(now, self._unanswered)
        if self._is_over:
            return out.effects
        self._queue.add(happened)
        is_cause = not happened
        for event in self._queue.take(self._budget.folded):
            self._fold(event, out)
            is_cause = is_cause or not _only_confirms(event)
        if self._is_loaded and not out.is_over and not self._queue.is_within_one and (is_cause or out.effects):
            self._decide(out)
        is_drained = self._is_draining and not self._transactions.count and not out.is_over
        if is_drained:
            out.add(effects.Drained())
        elif self._queue.has_more or (self._is_loaded and self._state.has_changes_left(self._half_read)):
            out.wake(events.Again(), out.now)
        self._is_over = out.is_over or is_drained
        return out.close()

    def _decide(self, out: Outbox) -> None:
        folded = self._queue.handed_out
        followed = self._budget.after(folded=folded).followed
        changes = self._state.take_changes(followed, self._half_read, self._at_rest.cut_unseen)
        for duty in self._retracting:
            duty.retract(changes, out)
        for duty in self._amending:
            duty.amend(changes, out)
        followed = 0 if changes.is_initial else sum(map(len, changes.partitions.values()))  # what is new takes little
        self._shared.budget = self._budget.after(folded=folded, followed=followed)
        changes.at_rest = self._at_rest.of(changes)
        for duty in self._following:
            duty.follow(changes, out)
        if not changes.unseen:
            for asked in self._intake.take(out):
                self._intake.admit_to(self._serving[type(asked.request)], asked, out)
        for duty in self._announcing:
            duty.announce(changes, out)
        for what, duty in self._proposing:
            ask = duty.drain if self._is_draining else duty.propose
            proposals = self._quarantine.attempt(what, partial(ask, out), out)
            if proposals:
                self._transactions.send(duty, proposals, out)

    def snapshot(self) -> Snapshot:
        """Summarize the term after the last turn."""
        cluster = self._cluster
        live = tuple(commands.LiveBroker(b, cluster.brokers[b].registration.endpoints) for b in cluster.live_brokers())
        return Snapshot(self._is_loaded, self._transactions.count, live)

    @property
    def is_paused(self) -> bool:
        """Whether this term begins no move. May be read from any thread."""
        return self._state.is_paused

    def figures(self) -> dict[str, float]:
        """The current gauges, by measure."""
        figures = {name: figure for duty in self._duties for name, figure in duty.figures().items()}
        return {**figures, "set_aside": len(self._quarantine)}

    def quarantined(self) -> tuple[str, ...]:
        """Everything in quarantine, in sentences for an operator."""
        return (*self._quarantine.sentences(), *self._state.unreadable.sentences())

    def held_up(self) -> tuple[str, ...]:
        """What in the cluster keeps work from beginning, in sentences for an operator."""
        return tuple(sentence for duty in self._duties for sentence in duty.held_up())

    def let_go(self) -> bool:
        """End the term and free one turn's worth of its state; return whether some is left."""
        self._is_over = True
        return self._state.let_go(self._budget.folded)

    def _fold(self, event: events.Event, out: Outbox) -> None:  # noqa: C901 (one flat match over the closed union of events)
        match event:
            case events.Observed(facts):
                self._observe(facts, out)
            case events.ReadRefused(path, reason, address):
                self._state.refuse(path, reason, address)
                if address is not None:
                    self._saw(address, None, out)
            case events.ReadAllowed(path):
                self._state.allow(path)
            case events.QuotasRead(rates):
                self._state.quotas.apply(rates)
            case events.Committed(commit, zxid):
                written = self._transactions.committed(commit)
                self._state.apply_all(facts_of(written, zxid, self._czxid_of))
                self._queue.go_on_with(tuple(facts_below(written, zxid)))
                to_watch = list(may_be_deleted_unseen(written))
                if to_watch:
                    out.read(to_watch, watch=True)
            case events.Conflicted(commit, address):
                self._transactions.failed(commit, (address,), out)
            case events.Unknown(commit):
                self._transactions.failed(commit, None, out)
            case events.Fenced():
                out.step_down("another controller has raised the controller epoch")
            case (
                events.Acknowledged()
                | events.LogDirsDescribed()
                | events.DisksDescribed()
                | events.BrokerConfigDescribed()
                | events.LogEndsDescribed()
                | events.Surveyed()
                | events.ClockShown()
            ):
                for what, duty in self._hearing:
                    self._quarantine.attempt(what, partial(duty.hear, event, out), out)
            case events.Asked():
                self._intake.receive(event, out)
            case events.Woke(alarm):
                self._wake(alarm, out)
            case events.Loaded():
                self._begin(out)
            case events.SettingsChanged(settings):
                self._adjust(settings, out)
            case events.ResignationAsked():
                self._is_draining = True
            case _:
                assert_never(event)
        self._transactions.settle(out)

    def _observe(self, facts: Sequence[Fact], out: Outbox) -> None:
        if not self._transactions.awaits_reads:
            self._state.apply_all(facts)
            return
        for fact in facts:
            self._state.apply(fact)
            self._saw(fact.address, fact, out)

    def _begin(self, out: Outbox) -> None:
        self._is_loaded = True
        self._state.begin()
        surpass(self._state.writer_epochs, self._cluster.controller_epoch, out)

    def _adjust(self, settings: MachineSettings, out: Outbox) -> None:
        before = self._shared.settings
        self._shared.adjust(settings)
        for duty in self._duties if self._is_loaded else ():
            self._quarantine.attempt(f"changed settings for {_name(duty)}", partial(duty.adjust, before, out), out)

    def _saw(self, address: Address, fact: Fact | None, out: Outbox) -> None:
        for commit, zxid in self._transactions.saw(address, fact, out):
            self._state.apply_all(facts_of(commit, zxid, self._czxid_of))

    def _wake(self, alarm: events.Alarm, out: Outbox) -> None:
        match alarm:
            case events.Again():
                pass  # the turn itself is all it asks for
            case TryAgain():
                self._transactions.resume(alarm, out)
            case _:
                self._ring(self._waking[type(alarm)], alarm, out)

    def _ring(self, duty: Duty, alarm: events.Alarm, out: Outbox) -> None:
        """Run an alarm; on an exception set it again later, since many keep a process going."""
        what = f"{type(alarm).__name__} of {_name(duty)}"
        try:
            duty.woke(alarm, out)
        except Exception as error:
            self._quarantine.put(what, described(error), out)
            out.wake(alarm, out.now + LONGEST_WAIT_S)
        else:
            self._quarantine.release(what)

    def _czxid_of(self, name: TopicName) -> Zxid | None:
        topic = self._cluster.topics.get(name)
        return None if topic is None else topic.czxid


def _only_confirms(event: events.Event) -> bool:
    """Whether an event only says that a broker took in metadata: clients may wait for that, but no decision does."""
    return (
        isinstance(event, events.Acknowledged)
        and isinstance(event.command, commands.UpdateMetadata)
        and event.error is ErrorCode.NONE
        and not event.errors
    )


def _name(duty: Duty) -> str:
    return type(duty).__name__
