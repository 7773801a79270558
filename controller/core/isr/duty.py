"""Which ISR changes do leaders request, or write themselves with a notification (IBP below 2.7-IV2)?"""

from __future__ import annotations

from controller.core.clients.open_requests import Item
from controller.core.isr import alter_partition
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Alarm, Asked
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import IsrResult, PartitionsAltered, Result
from controller.core.messages.requests import AlterPartition, IsrProposal
from controller.core.state.changes import Changes
from controller.core.steps.step import Step, TopicDuty
from controller.core.turn.shared import Shared
from zk_layout.catalog import Address
from zk_layout.ids import TopicPartition
from zk_layout.znodes.partition_state import StateAddress

UNREADABLE_WAIT_S = 1.0


class LookOnceMore(Alarm, frozen=True):
    """Requests about unreadable partitions may be answerable now."""


class IsrChanges(TopicDuty):
    """The ISRs, as their leaders request them."""

    alarms = (LookOnceMore,)
    requests = (AlterPartition,)
    parts = (IsrProposal,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._watched: dict[TopicPartition, None] = {}
        self._put_off: list[Asked] = []

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Open the request, so that each partition is decided separately; refuse an outdated sender."""
        request = asked.request
        if not isinstance(request, AlterPartition):
            raise TypeError(f"{type(request).__name__} is not served here")
        error = alter_partition.refuse_sender(request, self._cluster)
        if error is not ErrorCode.NONE:
            out.answer(asked.call, PartitionsAltered((), error))
            return
        if any(alter_partition.is_unknown_for_now(proposal, self._cluster) for proposal in request.proposals):
            # The leader would repeat its request as soon as it got an error, so a temporary error must wait.
            if not self._put_off:
                out.wake(LookOnceMore(), out.now + UNREADABLE_WAIT_S)
            self._put_off.append(asked)
            return
        self._open(asked, request, out)

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Open the postponed requests."""
        put_off, self._put_off = self._put_off, []
        for asked in put_off:
            assert isinstance(asked.request, AlterPartition)
            self._open(asked, asked.request, out)

    def _open(self, asked: Asked, request: AlterPartition, out: Outbox) -> None:
        items: list[Item] = []
        refused: list[tuple[int, Result]] = []
        for index, proposal in enumerate(request.proposals):
            topic = alter_partition.topic_of(proposal, self._cluster)
            if topic is None:
                is_for_now = alter_partition.is_unknown_for_now(proposal, self._cluster)
                error = ErrorCode.UNKNOWN_SERVER_ERROR if is_for_now else ErrorCode.UNKNOWN_TOPIC_ID
                refused.append((index, IsrResult(None, proposal.topic.topic_id, proposal.partition, error)))
            else:
                items.append(Item(asked.call, index, TopicPartition(topic, proposal.partition), proposal))
        self._shared.requests.open(asked.call, request, items, refused, out)
        for name in dict.fromkeys(item.at.topic for item in items):
            self._shared.agenda.add(name, is_urgent=True)

    def consider(self, item: Item, step: Step, out: Outbox) -> None:
        """Decide an ISR change. Nothing else may change the partition: the answer must show the ISR that the leader
        wants.
        """
        proposal, request = item.wanted, self._shared.requests.request(item.call)
        assert isinstance(proposal, IsrProposal)
        if not isinstance(request, AlterPartition):
            raise TypeError(f"an ISR proposal came with {type(request).__name__}")
        number = item.at.partition
        if step.planned.touches(number):
            step.postponed.append(item)
            return
        step.closed[number] = None
        outcome = alter_partition.consider(request, proposal, item.at, self._cluster)
        if isinstance(outcome, IsrResult):
            self._shared.requests.settle(item, outcome, out)
            # The leader sends no more changes in this leader epoch.
            if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
                self._shared.announcements.note_unannounced(item.at)
                self._shared.agenda.add(item.at.topic, (number,))
        else:
            step.planned.take(number, outcome)
            step.proposed[number] = None
            step.accepted.append(item)

    def granted(self, item: Item) -> Result:
        """The answer with the state in force."""
        assert isinstance(item.wanted, IsrProposal)
        held = self._cluster.partition(item.at)
        return self.missing(item) if held is None else alter_partition.granted(item.wanted, item.at, held)

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Read the ISRs that leaders wrote themselves, and watch moving partitions if leaders may do so."""
        changed = dict.fromkeys(at for _, change in changes.isr_changes if change for at in change.partitions)
        to_read: list[Address] = [StateAddress(*at) for at in changed if self._cluster.partition(at)]
        if to_read:
            out.read(to_read)
        for name, gone in changes.gone_topics.items() if self._watched else ():
            for number in gone.partitions:
                self._watched.pop(TopicPartition(name, number), None)
        if self._shared.settings.leaders_write_isr:
            self._watch_moving(changes, out)

    def _watch_moving(self, changes: Changes, out: Outbox) -> None:
        moving = self._cluster.moving
        to_watch = []
        for name, numbers in changes.partitions.items():
            for number in numbers if name in moving else ():
                at = TopicPartition(name, number)
                if number in moving[name] and at not in self._watched:
                    self._watched[at] = None
                    to_watch.append(StateAddress(name, number))
        if to_watch:
            out.read(to_watch, watch=True)
