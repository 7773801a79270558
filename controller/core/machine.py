"""What follows from what happened? The whole controller of one term as one function: events in, effects out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from msgspec import Struct

from controller.core.clients.authorization import Authorizer
from controller.core.duties import all_duties
from controller.core.messages import commands, effects, events, requests
from controller.core.messages.outbox import Outbox
from controller.core.scheduling.quarantine import described
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.transactions.back_off import LONGEST_WAIT_S
from controller.core.transactions.owner import TryAgain, facts_below, facts_of, may_be_deleted_unseen
from controller.core.transactions.proposal import Proposal
from controller.core.turn.duty import Duty
from controller.core.turn.event_queue import EventQueue
from controller.core.turn.intake import Intake
from controller.core.turn.shared import at_beginning
from zk_layout.catalog import Address
from zk_layout.facts import Fact
from zk_layout.ids import ControllerEpoch, TopicName, Zxid


class Snapshot(Struct, frozen=True):
    """What the shell may know of a term after a turn.

    Shape:
        `in_flight` counts the transactions without an answer; `live_brokers` are the real brokers that mean to stay.
    """

    is_loaded: bool
    in_flight: int
    live_brokers: tuple[commands.LiveBroker, ...]


class Machine:
    """One term: from the won election to its end.

    A turn does a bounded amount of work, so that nothing else in the process waits for long: what is left is done in
    further ones, for which it asks with `Again`.

    The state is what ZooKeeper said. What is under way, what brokers and clients said, may be lost with the machine:
    that costs a repetition, never correctness.

    An error in what is decided about a topic, a request, an answer, an alarm or an outcome costs that one: it is set
    aside. One while facts are folded, followed or told leaves state and memory half changed, and nobody could say which
    half: it leaves `turn`, and must end the term.
    """

    def __init__(
        self,
        settings: MachineSettings,
        controller_epoch: ControllerEpoch,
        random: SeededRandom,
        is_allowed: Authorizer | None = None,
    ) -> None:
        """A term that has not loaded anything yet. Without `is_allowed` its settings say who decides."""
        self._unanswered: dict[events.CallId, requests.Request] = {}
        shared = at_beginning(settings, controller_epoch, random, is_allowed)
        self._state, self._cluster, self._transactions = shared.state, shared.cluster, shared.transactions
        self._set_aside = shared.set_aside
        self._queue = EventQueue(self._cluster.topics, self._transactions)
        self._intake = Intake(shared, self._unanswered)
        self._duties = all_duties(shared, self._intake)
        self._serving = {request: duty for duty in self._duties for request in duty.requests}
        self._waking = {alarm: duty for duty in self._duties for alarm in duty.alarms}
        self._budget = settings.budget
        self._half_read = shared.transactions.half_read_topics
        self._is_loaded = self._is_draining = self._is_over = False

    def turn(self, happened: Sequence[events.Event], now: float) -> list[effects.Effect]:
        """What follows from these events.

        Shape:
            The effects are in the order in which they are to be carried out.

        Units:
            `now` is in monotonic seconds.
        """
        out = Outbox(now, self._unanswered)
        if self._is_over:
            return out.effects
        self._queue.add(happened)
        for event in self._queue.take(self._budget.folded):
            self._fold(event, out)
        if self._is_loaded and not out.is_over and not self._queue.is_within_one:
            self._decide(out)
        is_drained = self._is_draining and not self._transactions.count and not out.is_over
        if is_drained:
            out.add(effects.Drained())
        elif self._queue.has_more or (self._is_loaded and self._state.has_changes_left(self._half_read)):
            out.wake(events.Again(), out.now)
        self._is_over = out.is_over or is_drained
        return out.close()

    def _decide(self, out: Outbox) -> None:
        changes = self._state.take_changes(self._budget.followed, self._half_read)
        for duty in self._duties:
            duty.amend(changes, out)
        for duty in self._duties:
            duty.follow(changes, out)
        if not changes.unseen:
            for asked in self._intake.take(out):
                self._intake.admit_to(self._serving[type(asked.request)], asked, out)
        for duty in self._duties:
            duty.tell(changes, out)
        for duty in self._duties:
            self._transactions.send(duty, self._proposals(duty, out), out)

    def snapshot(self) -> Snapshot:
        """How things stand after the last turn."""
        cluster = self._cluster
        live = tuple(commands.LiveBroker(b, cluster.brokers[b].registration.endpoints) for b in cluster.live_brokers())
        return Snapshot(self._is_loaded, self._transactions.count, live)

    def figures(self) -> dict[str, float]:
        """The gauges of this moment, by measure."""
        figures = {name: figure for duty in self._duties for name, figure in duty.figures().items()}
        return {**figures, "set_aside": len(self._set_aside)}

    def set_aside(self) -> tuple[str, ...]:
        """What has gone wrong and is to be tried again, as people read it."""
        return (*self._set_aside.sentences(), *self._state.unreadable.sentences())

    def let_go(self) -> bool:
        """The term is over: forget a part of what is known, as much as a turn may do; whether something is left."""
        self._is_over = True
        return self._state.let_go(self._budget.folded)

    def _fold(self, event: events.Event, out: Outbox) -> None:  # noqa: C901 (one flat match over the closed union of events)
        match event:
            case events.Observed(facts):
                for fact in facts:
                    self._state.apply(fact)
                    self._saw(fact.address, fact, out)
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
            case events.Acknowledged() | events.LogDirsDescribed() | events.Surveyed() | events.ClockShown():
                for duty in self._duties:
                    self._set_aside.attempt(f"an answer for {_name(duty)}", partial(duty.hear, event, out), out)
            case events.Asked():
                self._intake.receive(event, out)
            case events.Woke(alarm):
                self._wake(alarm, out)
            case events.Loaded():
                self._is_loaded = True
                self._state.begin()
            case events.ResignationAsked():
                self._is_draining = True
            case _:
                assert_never(event)
        self._transactions.settle(out)

    def _saw(self, address: Address, fact: Fact | None, out: Outbox) -> None:
        for commit, zxid in self._transactions.saw(address, fact, out):
            self._state.apply_all(facts_of(commit, zxid, self._czxid_of))

    def _wake(self, alarm: events.Alarm, out: Outbox) -> None:
        match alarm:
            case events.Again():
                pass  # the turn itself is all that is wanted
            case TryAgain():
                self._transactions.resume(alarm, out)
            case _:
                self._ring(self._waking[type(alarm)], alarm, out)

    def _ring(self, duty: Duty, alarm: events.Alarm, out: Outbox) -> None:
        """An alarm that is not heard out rings again: many keep something going."""
        what = f"{type(alarm).__name__} of {_name(duty)}"
        try:
            duty.woke(alarm, out)
        except Exception as error:
            self._set_aside.put(what, described(error), out)
            out.wake(alarm, out.now + LONGEST_WAIT_S)
        else:
            self._set_aside.take_back(what)

    def _proposals(self, duty: Duty, out: Outbox) -> Sequence[Proposal]:
        what, ask = f"what {_name(duty)} wants written", duty.drain if self._is_draining else duty.propose
        proposals = self._set_aside.attempt(what, partial(ask, out), out)
        return () if proposals is None else proposals

    def _czxid_of(self, name: TopicName) -> Zxid | None:
        topic = self._cluster.topics.get(name)
        return None if topic is None else topic.czxid


def _name(duty: Duty) -> str:
    return type(duty).__name__
