"""Which moves are requested through the API, what is each move's next step, and which replicas must be deleted?"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from controller.core.announcing.sending import is_accepted
from controller.core.clients.long_requests import LongRequests
from controller.core.clients.open_requests import Item, denied, moved
from controller.core.clients.refusal import refusal
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Acknowledged, Alarm, Asked
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import Result
from controller.core.messages.requests import AlterReassignments, Mode, PartitionReassignment
from controller.core.reassignment import alter_reassignments, own_replica, pausing, rule
from controller.core.reassignment.memory import MovesMemory
from controller.core.reassignment.queue import MoveQueue
from controller.core.reassignment.queue_writes import Noted
from controller.core.reassignment.removal import GATHER_S, Removal
from controller.core.reassignment.throttles import Throttles
from controller.core.settings import MachineSettings
from controller.core.stage import Stage, stage
from controller.core.state.changes import Changes
from controller.core.state.topics import UNASSIGNED
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Gather, Next, Precedence, Rule
from controller.core.steps.step import Step, TopicDuty
from controller.core.turn.duty import Report
from controller.core.turn.shared import Shared
from zk_layout.ids import PartitionId, TopicName, TopicPartition
from zk_layout.znodes.move_records import mistake_in_reason
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Assignment, TopicAddress

_OVERRULED = Refusal(
    ErrorCode.INVALID_REQUEST, "a later request has overruled this one, which waited for its throttle to be in force"
)


class PatienceOver(Alarm, frozen=True):
    """Some moves have waited long enough for confirmed deletions."""


class EndsGathered(Alarm, frozen=True):
    """The ends of a topic's moves have been gathered long enough."""

    topic: TopicName


class Moves(TopicDuty):
    """All moves of partitions, of any origin."""

    requests = (AlterReassignments,)
    parts = (PartitionReassignment,)
    alarms = (PatienceOver, EndsGathered)

    def __init__(self, shared: Shared, memory: MovesMemory, queue: MoveQueue, throttles: Throttles) -> None:
        self._shared = shared
        self._queue = queue
        self._throttles = throttles
        self._cluster = shared.cluster
        self._removal = Removal(memory, shared.settings.deletion_patience_s, shared.settings.budget.decided)
        self._letting_go: list[TopicPartition] = []
        self._gathered: list[TopicPartition] = []
        self._ended_unasked = 0
        self._long_requests = LongRequests(shared.requests, shared.agenda)
        throttles.serve(self._long_requests.start, self._long_requests.refuse)

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """Replicas on controller ids, and moves in progress."""
        return (
            (Precedence.OWN_REPLICA, own_replica.next_step),
            (Precedence.REASSIGNMENT, self._next_step),
            (Precedence.NEW_EPOCH, rule.new_epoch),
        )

    # ---- requests -------------------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Open the request, to decide each partition separately; of several targets the last applies, as in Kafka."""
        request = asked.request
        if not isinstance(request, AlterReassignments):
            raise TypeError(f"{type(request).__name__} is not served here")
        if (message := _mistake(request)) is not None:
            out.answer(asked.call, refusal(request, ErrorCode.INVALID_REQUEST, message))
            return
        wanted = {wanted.topic_partition: wanted for wanted in request.reassignments}
        request = replace(request, reassignments=tuple(wanted.values()))
        items = (Item(asked.call, i, w.topic_partition, w) for i, w in enumerate(request.reassignments))
        is_throttled = self._throttles.ask(asked.call, request)
        take_in = self._long_requests.hold if is_throttled else self._long_requests.open
        take_in(asked.call, request, items, len(wanted), out)
        self._shared.requests.note_caller(asked.call, asked.caller)

    def consider(self, item: Item, step: Step, out: Outbox) -> None:
        """Move a partition, redirect its move, or cancel it."""
        wanted, request = item.wanted, self._shared.requests.request(item.call)
        assert isinstance(wanted, PartitionReassignment)
        if self._throttles.take(item.call, item.at):
            self._answer(item, _OVERRULED, step, out)
            return
        mode = Mode(request.mode) if isinstance(request, AlterReassignments) else Mode.SAFE
        number = item.at.partition
        outcome = _unreadable(step, item.at) or alter_reassignments.consider(
            wanted, step.planned.case(number), self._cluster, mode
        )
        if isinstance(outcome, Change) and wanted.replicas is not None:
            outcome = self._unless_paused(step.planned.case(number), outcome)
        verdict: Change | Refusal | Noted | None = outcome
        if self._queue.is_on:
            give_up_ms = request.give_up_ms if isinstance(request, AlterReassignments) else None
            verdict = self._queue.requested(step, wanted, step.planned.case(number), outcome, give_up_ms)
        self._answer(item, self._overruling(item, wanted, verdict), step, out)

    def _overruling(
        self, item: Item, wanted: PartitionReassignment, verdict: Change | Refusal | Noted | None
    ) -> Change | Refusal | Noted | None:
        """The same, but a cancellation is accepted if all that it ends is a request that waits for its throttle."""
        is_idle_cancel = (
            isinstance(verdict, Refusal)
            and wanted.replicas is None
            and verdict.error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        )
        if isinstance(verdict, Refusal) and not is_idle_cancel:
            return verdict
        return None if self._throttles.supersede(item.call, wanted) and is_idle_cancel else verdict

    def _answer(self, item: Item, outcome: Change | Refusal | Noted | None, step: Step, out: Outbox) -> None:
        number = item.at.partition
        if isinstance(outcome, Refusal):
            self._shared.requests.settle(item, moved(item, outcome.error, outcome.message), out)
            return
        if outcome is None:
            self._shared.requests.settle(item, moved(item), out)
            return
        if isinstance(outcome, Change):
            step.planned.take(number, outcome)
            if outcome.notice is not None:
                step.notices.append(outcome.notice)
        # What ZooKeeper says: an earlier request of this step, which the later one overrides, is never written.
        held = step.topic.partitions.get(number)
        self._shared.requests.note_former(item, () if held is None else held.assignment.target)
        step.accepted.append(item)
        step.requested[number] = None
        if self._queue.is_on:
            # What another request is to find in flight, or waiting, must be written first: else room is counted twice.
            step.closed[number] = None

    def _unless_paused(self, case: Case | None, wanted: Change) -> Change | Refusal:
        pause = self._cluster.pause
        if pause is None or not pausing.holds_back(case, self._cluster, wanted):
            return wanted
        return pausing.refusal(pause)

    def missing(self, item: Item) -> Result:
        """Refuse a missing partition; like Kafka, checks the request first."""
        return self._refused(item, UNASSIGNED)

    def being_deleted(self, item: Item) -> Result:
        """Refuse a move during a deletion; like Kafka, with the partition's replicas still known."""
        held = self._cluster.partition(item.at)
        return self._refused(item, UNASSIGNED if held is None else held.assignment)

    def _refused(self, item: Item, held: Assignment) -> Result:
        assert isinstance(item.wanted, PartitionReassignment)
        return denied(item, alter_reassignments.refuse(item.wanted, held, self._cluster))

    # ---- what happens ---------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Continue large requests, and forget what no longer matters once a partition has changed."""
        self._long_requests.go_on(out)
        if changes.pause and self._cluster.pause is None:
            self._replace_controllers()
        for name, gone in changes.gone_topics.items():
            self._removal.forget_topic(name, gone.partitions)
        if self._removal.is_idle:
            return
        for name, numbers in changes.partitions.items():
            topic = self._cluster.topics[name]
            for number in numbers:
                at = TopicPartition(name, number)
                self._removal.see(at, topic.partitions[number], topic.deletions.get(number, ()))

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """End waits as the settings now say."""
        patience_s = self._shared.settings.deletion_patience_s
        if patience_s != before.deletion_patience_s and (next_at := self._removal.adjust(patience_s)) is not None:
            out.wake(PatienceOver(), next_at)

    def _replace_controllers(self) -> None:
        """Look again at replicas on ids of controllers, whose moves may have waited for the end of a pause."""
        for controller in self._cluster.controllers:
            for name, numbers in self._cluster.hosted.get(controller, {}).items():
                self._shared.agenda.add(name, numbers)

    def hear(self, report: Report, out: Outbox) -> None:
        """Take in confirmed deletions."""
        if isinstance(report, Acknowledged) and is_accepted(report, self._cluster):
            due: dict[TopicName, list[PartitionId]] = {}
            for at in self._removal.confirm(report, self._cluster):
                due.setdefault(at.topic, []).append(at.partition)
            for name, numbers in due.items():
                self._go_on(name, numbers, out)

    def _go_on(self, name: TopicName, numbers: Iterable[PartitionId], out: Outbox) -> None:
        """Let moves end, and many of one topic together, since each end writes the whole topic's znode."""
        moving = self._cluster.moving.get(name, {})
        ends = [n for n in numbers if n in moving]
        at_once = [n for n in numbers if n not in moving]
        if ends and not self._gather(name, len(moving), out):
            at_once += ends
        elif ends and self._removal.put_off(name, ends, len(moving)):
            at_once += self._removal.gathered(name)
        if at_once:
            self._shared.agenda.add(name, at_once)

    def _gather(self, name: TopicName, moving: int, out: Outbox) -> bool:
        """Whether ends of this topic's moves wait for each other now."""
        if self._removal.gather(name, moving):
            out.wake(EndsGathered(name), out.now + GATHER_S)
        return self._removal.is_gathering(name)

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """End waits whose time is over."""
        match alarm:
            case PatienceOver():
                expired, next_at = self._removal.lose_patience(out.now)
                for at in expired:
                    self._shared.agenda.add(at.topic, (at.partition,))
                if next_at is not None:
                    out.wake(PatienceOver(), next_at)
            case EndsGathered(topic):
                self._shared.agenda.add(topic, self._removal.gathered(topic))
            case _:
                raise TypeError(f"{alarm} is not set here")

    def _next_step(self, case: Case, cluster: Cluster) -> Next:
        """The rule's next step; what it waits for is noted until the step is closed."""
        step = rule.next_step(case, cluster)
        match step:
            case Gather():
                self._gathered.append(case.at)
            case Change(assignment=assignment):
                self._ended_unasked += assignment is not None and not assignment.is_moving and not case.confirmed
            case None if stage(case.assignment, case.state) is Stage.LETTING_GO and not case.is_unannounced:
                self._letting_go.append(case.at)
            case _:
                pass
        return step

    def open_step(self, step: Step, out: Outbox) -> None:
        """Reset what an unfinished step may have left; hand over what is in sync by an ISR that a leader requests.

        A cancellation that waits for the ISR to be written still finds the move under way.
        """
        self._letting_go, self._gathered, self._ended_unasked = [], [], 0
        asked_next = {item.at.partition for item in step.postponed}
        for number in step.proposed:
            if number not in step.limited and number not in asked_next:
                step.at = number
                self._hand_over_at_once(number, step)
        step.at = None

    def _hand_over_at_once(self, number: PartitionId, step: Step) -> None:
        case, held = step.planned.case(number), step.topic.partitions[number]
        if case is None or held.state is None or step.topic.is_malformed:
            return
        change = rule.hand_over_at_once(case, held.state, self._cluster)
        if change is not None:
            step.planned.take(number, change)

    def close_step(self, step: Step, out: Outbox) -> None:
        """Begin waits, and gather ends of moves that come at about the same time."""
        self._throttles.go_on(out)
        until = self._removal.wait_for(self._letting_go, out.now)
        if until is not None:
            out.wake(PatienceOver(), until)
        if self._gathered:
            self._go_on(step.name, [at.partition for at in self._gathered], out)
        if self._ended_unasked:  # no broker's answer has announced them
            self._gather(step.name, len(self._cluster.moving.get(step.name, ())) - self._ended_unasked, out)


def _unreadable(step: Step, at: TopicPartition) -> Refusal | None:
    """Refuse a partition whose malformed znode hides its replicas or leader."""
    held, is_topic_malformed = step.topic.partitions.get(at.partition), step.topic.is_malformed
    if not is_topic_malformed and not (held is not None and held.is_malformed):
        return None
    path = TopicAddress(at.topic).path if is_topic_malformed else StateAddress(at.topic, at.partition).path
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"{path} is malformed; repair it first")


def _mistake(request: AlterReassignments) -> str | None:
    """What is wrong with what our own tool adds to a request."""
    if request.mode not in tuple(Mode):
        return f"mode {request.mode!r} is unknown; leave it out, or use 'gentle' or 'forced'"
    if request.throttle is not None and request.throttle < 1:
        return f"throttle {request.throttle} is no rate; leave it out, or give bytes a second"
    if request.give_up_ms is not None and request.give_up_ms < 0:
        return f"moves cannot give up after {request.give_up_ms} ms; leave it out, or give 0 to let them wait"
    mistake = None if request.reason is None else mistake_in_reason(request.reason)
    return None if mistake is None else f"the reason {mistake}"
