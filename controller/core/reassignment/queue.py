"""Which moves wait because of limits, and which of them begins now?

Where moves are limited, an accepted move that finds no room waits: what a client asked for in a znode of ours, what an
entry of the legacy znode or a child of `/admin/reassignments` asks for there. What has begun goes on, and may be
redirected or cancelled at once.

Source: KIP-455 "Internal Batching", which leaves limits to the controller and asks for none by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from controller.core.messages.effects import Notice
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Again, Alarm, ClockShown, DisksDescribed, LogDirsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import PartitionReassignment
from controller.core.reassignment import pausing, rule, topic_room
from controller.core.reassignment.giving_up import GiveUp, GivingUp
from controller.core.reassignment.memory import QueueMemory
from controller.core.reassignment.places import THE_CLUSTER
from controller.core.reassignment.queue_writes import Noted, Plan, part_writes, refused_write, without_strays
from controller.core.reassignment.turns import ASIDE_S, Turns
from controller.core.reassignment.waiters import Waiters
from controller.core.reassignment.waiting_text import asked_again, gave_up, on_its_way, overtaken, superseded
from controller.core.settings import MachineSettings
from controller.core.state.changes import Changes
from controller.core.state.waiting_znodes import Door, Waiter
from controller.core.steps.change import Case, Change, listed
from controller.core.steps.step import Step, TopicDuty
from controller.core.transactions.proposal import Outcome, Proposal
from controller.core.turn.duty import Report
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.waiting_moves import PartNumber, WaitingMove, part_of

PARTS_A_TURN = 30
OVERTAKEN = "overtaken move"


class TryAside(Alarm, frozen=True):
    """Moves that could not begin when it was their turn may be able to now."""


class MoveQueue(TopicDuty):
    """The waiting moves of one term, and the room that moves take."""

    alarms = (TryAside, GiveUp, *Turns.alarms)

    def __init__(self, shared: Shared, memory: QueueMemory) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._state = shared.state.waiting
        self._waiting = memory.waiting
        self._waiters = Waiters(memory.waiting)
        self._turns = Turns(shared, memory.waiting)
        self._giving_up = GivingUp(shared, memory, self._turns.hours)
        self._leads = not shared.settings.is_observing
        self._is_alarm_set = False
        self._plans: dict[TopicName, Plan] = {}
        self._unread: dict[TopicName, dict[PartNumber, None]] = {}
        self._strays: dict[TopicName, None] = {}
        self._flying: dict[TopicName, dict[PartitionId, None]] = {}
        self._last_order = 0

    @property
    def holds_entries(self) -> bool:
        """Whether entries of the legacy znode wait for more than their throttle."""
        return self._waiters.is_any_entry_in_line

    @property
    def is_on(self) -> bool:
        """Whether moves may have to wait, or some still do from when they had to."""
        return self._turns.is_on or bool(self._waiting)

    # ---- what doors ask -------------------------------------------------------------------------------------

    def requested(
        self,
        step: Step,
        wanted: PartitionReassignment,
        case: Case | None,
        outcome: Change | Refusal | None,
        give_up_ms: int | None = None,
    ) -> Change | Refusal | Noted | None:
        """What a client's request comes to, given what it would change without limits."""
        at, present = wanted.topic_partition, self._waits_for(wanted.topic_partition)
        is_cancel = wanted.replicas is None
        if isinstance(outcome, Refusal):
            is_idle = is_cancel and outcome.error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            if present is None or not is_idle:
                return outcome
        if case is None:
            return outcome
        if wanted.replicas is not None and isinstance(outcome, Change):
            return self._begin_or_wait(step, case, wanted, outcome, give_up_ms)
        if present is None:
            return outcome
        if (refused := refused_write(at, self._state, self._cluster)) is not None:
            return refused
        what = "cancel" if is_cancel else "stay"
        self.drop(step, at, f"asked to {what}: {at} no longer waits to move to {listed(present)}")
        return outcome if isinstance(outcome, Change) else Noted.IN_ZNODES

    def _begin_or_wait(
        self, step: Step, case: Case, wanted: PartitionReassignment, change: Change, give_up_ms: int | None
    ) -> Change | Refusal | Noted | None:
        at, target, recorded = case.at, wanted.replicas or (), self._cluster.waiting_move(case.at)
        if self.may_begin(step, case, change):
            self.drop(step, at)
            return change
        again = None
        if recorded is not None and recorded.to == target:
            again, waiter = self._giving_up.accept_again(recorded, give_up_ms, wanted.weight), self._waiters.of(at)
            if again == recorded or (waiter is not None and waiter.door is not Door.REQUEST):
                return None if waiter is None or waiter.door is Door.REQUEST else Noted.IN_ZNODES
        if (refused := refused_write(at, self._state, self._cluster)) is not None:
            return refused
        if again is not None:
            self._plan(step).add(at.partition, again, asked_again(at, again))
            return Noted.IN_ZNODES
        self._last_order += 1
        former = step.topic.partitions[at.partition].assignment.target
        why = f"{at} waits to move to {listed(target)}: {self._turns.obstacles.reason(at, target)}"
        since_ms = self._giving_up.accept(at, give_up_ms)
        move = WaitingMove(target, former, self._last_order, since_ms, give_up_ms, wanted.weight)
        self._plan(step).add(at.partition, move, why)
        return Noted.IN_ZNODES

    def _waits_for(self, at: TopicPartition) -> Replicas | None:
        """Where a partition waits to move, by the znode that asks for it: what is answered must have been written."""
        waiter, recorded = self._waiters.of(at), self._cluster.waiting_move(at)
        if waiter is not None and waiter.door is not Door.REQUEST:
            return self._asked_by(at, waiter.door)
        return None if recorded is None else recorded.to

    def may_begin(self, step: Step, case: Case, change: Change) -> bool:
        """Whether a move may begin, or go elsewhere, in this step; if so, room is kept for it until the outcome.

        Only a move that is in flight according to ZooKeeper goes elsewhere at once, even where there is no room.
        """
        at, to = case.at, change.assignment
        if to is None or not (self._turns.is_on or self._waiters.is_any_in_line):
            return True
        places = self._turns.obstacles.places_of(at, to, change.state or case.state)
        if places and THE_CLUSTER not in self._turns.room.in_flight(at):
            if not self._turns.may_begin(at, places):
                return False
            if not self._turns.obstacles.in_znodes.takes(self._plan(step), case, to):
                self._turns.stand_back(at, topic_room.room_of(at.topic))
                return False
        self._plan(step).begun[at] = None
        self._turns.room.reserve(at, places)
        return True

    def hold(
        self, step: Step, at: TopicPartition, target: Replicas, door: Door, *, is_unthrottled: bool = False
    ) -> None:
        """Let a move wait that a znode asks for which stays; what a client asked for before is superseded.

        `is_unthrottled`: it waits for its throttle, and stands in a line only when that is in force.
        """
        waiter = self._waiters.of(at)
        self.overrule(step, at, target, door)
        if waiter is None or (waiter.to, waiter.door) != (target, door):
            self._last_order += 1
            self._forget(at)
            self._waiters.remember(at, Waiter(target, self._last_order, door))
        if is_unthrottled:
            self._turns.forget(at)
            self._waiters.unthrottled[at] = None
            return
        self._waiters.unthrottled.pop(at, None)
        if at not in self._turns.called and at not in self._turns:
            self._turns.stand(at)

    def overrule(self, step: Step, at: TopicPartition, target: Replicas, door: Door) -> None:
        """Let a client's move wait no longer, for a znode asks for these replicas."""
        recorded = self._cluster.waiting_move(at)
        if recorded is not None:
            self.drop(step, at, superseded(at, recorded, target, door))

    def drop(self, step: Step, at: TopicPartition, why: str | None = None) -> None:
        """Take a client's waiting move out of its znode, in this step."""
        if self._cluster.waiting_move(at) is not None or why is not None:
            self._plan(step).drop(at.partition, why)

    # ---- following ------------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Take in what takes room, what waits, and what it waits for."""
        self._giving_up.begin_turn(out.now)
        self._turns.stand_again(self._turns.gates.follow(changes, out))
        self._look_at_racks(self._cluster.brokers if changes.is_beginning else changes.brokers)
        self._turns.follow(changes, out)
        if changes.is_beginning:
            self._turns.hours.look(out)
            for name, numbers in self._cluster.moving.items():
                self._see_all(name, numbers)
        for name, parts in changes.waiting.items():
            self._unread.setdefault(name, {}).update(parts)
        for name in changes.gone_topics:
            self._turns.room.forget(topic_room.room_of(name))
            self._giving_up.forget_topic(name)
            self._see_all(name, (*self._flying.get(name, ()), *self._waiting.get(name, ())))
        for name in {**changes.gone_topics, **changes.topics} if self._state.parts else ():
            if self._state.of(name) and self._is_another(name, changes):
                self._unread.setdefault(name, {}).update(dict.fromkeys(self._state.of(name)))
        for name, changed in changes.partitions.items():
            if name in self._flying or name in self._waiting or name in self._cluster.moving:
                self._see_all(name, changed)
        for at in changes.children:
            self._look_at_door(at, Door.CHILD)

    def _look_at_racks(self, brokers: Iterable[BrokerId]) -> None:
        """Take in in which racks brokers are, and what that means for what copies to them, or is to."""
        if changed := self._turns.obstacles.racks.look(brokers):
            for broker in changed:
                for at in tuple(self._shared.state.placement.adding.get(broker, ())):
                    self._see(at)
            self._turns.doubt({*changed})

    def _is_another(self, name: TopicName, changes: Changes) -> bool:
        """Whether what waits in a topic may be its own only now, or no longer: it came, went, or got an id."""
        topic, former = self._cluster.topics.get(name), changes.topics.get(name)
        if topic is None or former is None:
            return True
        return (topic.czxid, topic.topic_id) != (former.czxid, former.topic_id)

    def announce(self, changes: Changes, out: Outbox) -> None:
        """Take in what waits, now that it is known which entries of the legacy znode are left."""
        if changes.legacy:
            for at in [TopicPartition(name, n) for name, waiting in self._waiting.items() for n in waiting]:
                self._look_at_door(at, Door.LEGACY)
        self._read_parts(out)

    def _read_parts(self, out: Outbox) -> None:
        most = PARTS_A_TURN
        while self._unread and most > 0:
            name = next(iter(self._unread))
            parts = self._unread.pop(name)
            some = list(islice(parts, most))
            most -= len(some)
            if len(parts) > len(some):
                self._unread[name] = dict.fromkeys(list(parts)[len(some) :])
            self._read(name, some)
        if self._unread:
            out.wake(Again(), out.now)

    def _read(self, name: TopicName, parts: Sequence[PartNumber]) -> None:
        topic, of_topic = self._cluster.topics.get(name), self._state.of(name)
        if topic is None or any(not part.is_of(topic) for part in of_topic.values()):
            self._strays[name] = None
        for number in parts:
            part = of_topic.get(number)
            listed_now = {} if part is None or topic is None else part.moves_of(topic)
            held = self._waiting.get(name, {})
            for n in [n for n, w in held.items() if part_of(n) == number and w.door is Door.REQUEST]:
                if n not in listed_now:
                    self._forget(TopicPartition(name, n))
            for n, move in sorted(listed_now.items(), key=lambda held: held[1].order):
                at, waiter = TopicPartition(name, n), self._waiters.of(TopicPartition(name, n))
                self._last_order = max(self._last_order, move.order)
                if part_of(n) != number or (waiter is not None and waiter.door is not Door.REQUEST):
                    continue
                recorded = Waiter(move.to, move.order, Door.REQUEST, move.weight)
                if waiter != recorded:
                    self._forget(at)
                    self._waiters.remember(at, recorded)
                    self._turns.stand(at)
                self._giving_up.wait(at, move)

    def _look_at_door(self, at: TopicPartition, door: Door) -> None:
        """Forget a move whose znode asks for it no longer."""
        waiter = self._waiters.of(at)
        if waiter is None or waiter.door is not door:
            return
        if self._asked_by(at, door) != waiter.to:
            self._forget(at)
            self._unread.setdefault(at.topic, {})[part_of(at.partition)] = None

    def _asked_by(self, at: TopicPartition, door: Door) -> Replicas | None:
        if door is Door.LEGACY:
            return self._cluster.legacy.get(at)
        child = self._cluster.child(at)
        return None if child is None else child.replicas

    def _see_all(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        for number in numbers:
            self._see(TopicPartition(name, number))

    def _see(self, at: TopicPartition) -> None:
        """Take in where a partition takes room, and where it would if what it waits for began."""
        topic, held = self._cluster.topics.get(at.topic), self._cluster.partition(at)
        is_there = topic is not None and held is not None and not topic.is_queued_for_deletion
        places = self._turns.obstacles.taken(at, held) if is_there and held is not None else ()
        self._turns.room.fly(at, places)
        if places:
            self._flying.setdefault(at.topic, {})[at.partition] = None
        elif at.topic in self._flying:
            self._flying[at.topic].pop(at.partition, None)
            if not self._flying[at.topic]:
                del self._flying[at.topic]
        waiter = self._waiters.of(at)
        if waiter is None:
            return
        has_begun = held is not None and held.assignment.target == waiter.to and waiter.door is not Door.REQUEST
        if topic is None or has_begun:
            self._forget(at)
        elif at not in self._waiters.unthrottled:
            self._turns.stand(at)

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """Count by the changed limits. What is in flight goes on, also beyond them."""
        self._turns.adjust(before, out)
        self._giving_up.adjust(before, out)
        if self._shared.settings.moves_wait_for_znodes != before.moves_wait_for_znodes:
            for name, numbers in self._cluster.moving.items():
                self._see_all(name, numbers)

    # ---- who is next ----------------------------------------------------------------------------------------

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Call the moves that may begin; their topics' steps follow in this turn. Remove what belongs to no topic."""
        if not self._leads:
            return ()
        self._turns.gates.look_for_brokers(out.now)
        self._turns.rate.look(out)
        self._giving_up.look(out)
        self._turns.look_again(out)
        if self._waiting and self._cluster.pause is None:
            self._turns.call(out)
        self._turns.say(out, is_anything_waiting=bool(self._waiting))
        if self._turns.aside and not self._is_alarm_set:
            self._is_alarm_set = True
            out.wake(TryAside(), out.now + ASIDE_S)
        return without_strays(self._strays, self._state, self._cluster, self._shared.transactions)

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Try again what could not begin; or what others waited for may be over."""
        if isinstance(alarm, TryAside):
            self._is_alarm_set = False
            self._turns.stand_up()
        elif isinstance(alarm, GiveUp):
            self._giving_up.woke()
        else:
            self._turns.woke(alarm, out)

    def hear(self, report: Report, out: Outbox) -> None:
        """Take in the time of the wall clock, how large replicas are, and how much room disks have."""
        if isinstance(report, LogDirsDescribed | DisksDescribed):
            self._turns.hear(report, out)
        if isinstance(report, ClockShown):
            self._turns.hours.show(report.unix_ms, out)

    # ---- deciding -------------------------------------------------------------------------------------------

    def open_step(self, step: Step, out: Outbox) -> None:
        """Begin what was called, and drop what has come true, or can no longer be meant."""
        waiting = self._waiting.get(step.name) if self._leads else None
        if not waiting:
            return
        plan = self._plan(step)
        for number in sorted(n for n in step.numbers if n in waiting):
            at = TopicPartition(step.name, number)
            is_later = at in self._cluster.legacy or number in step.requested or number in plan.changed
            if is_later or step.planned.touches(number) or number in step.limited or step.is_limited:
                continue
            if waiting[number].door is Door.REQUEST:
                step.at = number
                self._open_one(step, at)
                step.at = None

    def _open_one(self, step: Step, at: TopicPartition) -> None:
        move = self._cluster.waiting_move(at)
        if move is None:
            self._forget(at)
            return
        held = step.topic.partitions.get(at.partition)
        if held is None or not held.assignment.replicas:
            if not step.topic.is_malformed:
                self.drop(step, at, f"{at} no longer waits to move to {listed(move.to)}: there is no such partition")
            return
        case = step.planned.case(at.partition)
        if case is None or step.topic.is_malformed:
            return
        target = held.assignment.target
        if target == move.to:
            self.drop(step, at, on_its_way(at, move.to))
            return
        if {*target} != {*move.former}:
            text = overtaken(at, move, target)
            step.notices.append(Notice(OVERTAKEN, text))
            self.drop(step, at, text)
            return
        if at in self._turns.called:
            self._begin(step, case, move.to)
        elif at in self._giving_up.due:
            text = gave_up(at, move, self._turns.obstacles.reason(at, move.to))
            self._giving_up.give_up(self._plan(step), at, text)
            self.drop(step, at, text)

    def _begin(self, step: Step, case: Case, target: Replicas) -> None:
        at = case.at
        outcome = rule.begin(case, self._cluster, target)
        if outcome is None:
            self.drop(step, at, on_its_way(at, target))
        elif isinstance(outcome, Change):
            if pausing.holds_back(case, self._cluster, outcome):
                self._turns.stand(at)
            elif self.may_begin(step, case, outcome):
                why = f"{outcome.why}; it has waited{self._turns.sizes.text(at)}"
                step.planned.take(at.partition, Change(why, outcome.assignment, outcome.state, outcome.owed))
                step.decided[at.partition] = None
                self.drop(step, at)

    def close_step(self, step: Step, out: Outbox) -> None:
        """Write what waits from now on, and no longer; what another rule has moved is waited for from there."""
        waiting = self._waiting.get(step.name)
        self._turns.rate.look(out)
        if self._turns.are_uncalled:
            out.wake(Again(), out.now)
        if waiting is None and step.name not in self._plans:
            return
        plan = self._plan(step)
        for number in step.planned.assigned:
            at = TopicPartition(step.name, number)
            move = self._cluster.waiting_move(at)
            assignment = step.planned.assignment_of(number)
            if move is None or assignment is None or number in plan.changed:
                continue
            if assignment.target == move.to:
                plan.drop(number, on_its_way(at, move.to))
            else:
                plan.follow(number, move, assignment.target)
        step.notices.extend(self._giving_up.notices(plan))
        writes = part_writes(step.topic, plan, self._state, self._cluster)
        step.planned.along.extend(writes)
        step.planned.notes.extend(plan.why)

    def end_step(self, step: Step, *, is_decided: bool) -> None:
        """Keep room only for what is going to be written; what was called and is not decided steps aside."""
        plan = self._plans.get(step.name)
        is_sent = is_decided and bool(step.atoms) and step.waits_for is None
        if plan is not None and (plan.step is not step or not is_sent):
            self._end(step.name)
        for number in step.numbers if self._turns.called else ():
            at = TopicPartition(step.name, number)
            is_touched = step.draft is not None and step.draft.touches(number)
            if at in self._turns.called and not (is_sent and is_touched):
                self._turns.step_aside(at)

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """See what became of the moves that were to begin: from now on ZooKeeper shows the room they take."""
        plan = self._plans.get(step.name)
        if plan is not None and plan.step is step:
            self._giving_up.settled(plan, outcome)
            self._end(step.name)

    def _end(self, name: TopicName) -> None:
        plan = self._plans.pop(name)
        for at in plan.begun:
            self._see(at)
            self._turns.room.release(at)
            waiter = self._waiters.of(at)
            if waiter is not None and waiter.door is Door.REQUEST and self._cluster.waiting_move(at) is None:
                self._forget(at)

    def _plan(self, step: Step) -> Plan:
        plan = self._plans.get(step.name)
        if plan is None or plan.step is not step:
            if plan is not None:
                self._end(step.name)
            plan = self._plans[step.name] = Plan(step)
        return plan

    # ---- who waits ------------------------------------------------------------------------------------------

    def _forget(self, at: TopicPartition) -> None:
        self._turns.forget(at)
        self._giving_up.forget(at)
        self._waiters.forget(at)

    def held_up(self) -> tuple[str, ...]:
        """What in the cluster keeps moves from beginning."""
        return self._turns.obstacles.held_up()

    def figures(self) -> dict[str, float]:
        """How many moves wait, and for what."""
        return self._turns.figures()
