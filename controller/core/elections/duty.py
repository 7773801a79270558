"""Who leads each partition: when a leader is gone, when its settings change, and on request?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from controller.core.clients.long_requests import LongRequests
from controller.core.clients.open_requests import Item, denied, refused
from controller.core.clients.refusal import refusal
from controller.core.elections import elect_leaders, first_leader, leader_election, preferred_leader
from controller.core.elections.memory import ElectionsMemory
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Again, Alarm, Asked
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import Result
from controller.core.messages.requests import Election, ElectLeaders
from controller.core.scheduling.agenda import Numbers
from controller.core.settings import MachineSettings
from controller.core.state import remembered
from controller.core.state.changes import Changes
from controller.core.steps.change import Precedence, Rule
from controller.core.steps.step import Step, TopicDuty
from controller.core.turn.intake import NoTimeGiven
from controller.core.turn.shared import Shared
from zk_layout.catalog import address_of
from zk_layout.ids import PartitionId, TopicName, TopicPartition
from zk_layout.znodes.configs import TopicConfigAddress

FIRST_REBALANCE_S = 5.0


class Rebalance(Alarm, frozen=True):
    """Check whether brokers lead too few of the partitions they are preferred for."""


class Elections(TopicDuty):
    """The leaders of all partitions."""

    requests = (ElectLeaders,)
    parts = (Election,)
    alarms = (Rebalance,)

    def __init__(self, shared: Shared, memory: ElectionsMemory) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._memory = memory
        self._was_unclean_allowed = shared.cluster.unclean_election
        self._long_requests = LongRequests(shared.requests, shared.agenda)
        self._unbalanced: Iterator[TopicPartition | None] = iter(())
        self._await_settings: dict[TopicName, Numbers] = {}

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """First leaders, replacements for lost leaders, and preferred leaders."""
        return (
            (Precedence.FIRST_LEADER, first_leader.next_step),
            (Precedence.LEADER, leader_election.next_step),
            (Precedence.PREFERENCE, preferred_leader.next_step),
        )

    # ---- requests -------------------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Open an election request; without named partitions, it covers all leaderless or all non-preferred ones."""
        request = asked.request
        if not isinstance(request, ElectLeaders):
            raise TypeError(f"{type(request).__name__} is not served here")
        if not request.is_known_kind:
            message = "the election type must be 0 (preferred) or 1 (unclean)"
            out.answer(asked.call, refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR, message))
            return
        if request.timeout_ms <= 0:
            out.wake(NoTimeGiven(asked.call), out.now)
        if request.partitions is not None:
            size, partitions = _each_once(request.partitions)
        else:
            size, partitions = _every(self._cluster.offline if request.is_unclean else self._cluster.not_preferred)
        wanted = Election(request.is_unclean)
        items = (Item(asked.call, index, at, wanted) for index, at in enumerate(partitions))
        self._long_requests.open(asked.call, request, items, size, out)

    def consider(self, item: Item, step: Step, out: Outbox) -> None:
        """Decide an election on request."""
        assert isinstance(item.wanted, Election)
        case = None if step.topic.is_malformed else step.planned.case(item.at.partition)
        outcome = elect_leaders.consider(item.wanted, case, self._cluster)
        if isinstance(outcome, Refusal):
            self._shared.requests.settle(item, denied(item, outcome), out)
        else:
            step.planned.take(item.at.partition, outcome)
            step.accepted.append(item)

    def missing(self, item: Item) -> Result:
        """The answer for a partition that does not exist."""
        return refused(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")

    def being_deleted(self, item: Item) -> Result:
        """The answer for a partition of a topic that is being deleted."""
        return denied(item, elect_leaders.BEING_DELETED)

    # ---- what happens ---------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Look again at partitions whose changed settings may allow an unclean election; go on with long work."""
        self._long_requests.go_on(out)
        if self._cluster.pause is None:
            self._balance(out)
        elif changes.pause:
            self._unbalanced = iter(())
            self._memory.forget_balance()
        for name, gone in changes.gone_topics.items():
            self._memory.forget_preferences(name, gone.partitions)
        if changes.is_beginning and self._shared.settings.rebalance_every_s is not None:
            out.wake(Rebalance(), out.now + FIRST_REBALANCE_S)
        if changes.preferred_election is not None:
            self._prefer(changes.preferred_election.partitions)
        self._follow_settings(changes)
        # Settings that changed before everything was loaded are read when they matter.
        to_read = [TopicConfigAddress(n) for n in changes.reconfigured if not changes.is_beginning and self._offline(n)]
        if to_read:
            out.read(to_read)
        is_allowed, before = self._cluster.unclean_election, self._was_unclean_allowed
        self._was_unclean_allowed = is_allowed
        if is_allowed and not before:
            for name, numbers in self._cluster.offline.items():
                self._shared.agenda.add(name, numbers)

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """Check the balance of leaders at the new interval: first after five seconds at most, as after a take-over."""
        every_s = self._shared.settings.rebalance_every_s
        if every_s == before.rebalance_every_s:
            return
        if every_s is None:
            self._unbalanced = iter(())
            self._memory.forget_balance()
        else:
            out.wake(Rebalance(), out.now + min(FIRST_REBALANCE_S, every_s))

    def _follow_settings(self, changes: Changes) -> None:
        for name in changes.configs:
            concerned = {**dict.fromkeys(self._offline(name)), **self._await_settings.pop(name, {})}
            if name in self._cluster.topics:
                self._memory.fresh_configs.setdefault(name, {}).update(concerned)  # others may still wait for a step
                self._shared.agenda.add(name, concerned)
        for path, _ in changes.refused:
            address = address_of(path)
            # Without readable settings no unclean election is allowed, so nothing waits for them.
            if isinstance(address, TopicConfigAddress):
                self._shared.agenda.add(address.topic, self._await_settings.pop(address.topic, {}))

    def _prefer(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            if self._cluster.partition(at) is not None:
                self._memory.prefer(at, is_asked=True)
                self._shared.agenda.add(at.topic, (at.partition,))

    def _offline(self, name: TopicName) -> list[PartitionId]:
        """The offline partitions that once had a leader: settings do not affect a first leader."""
        topic, offline = self._cluster.topics.get(name), self._cluster.offline.get(name)
        had_leader = (n for n, held in topic.partitions.items() if held.state is not None) if topic and offline else ()
        return [n for n in had_leader if offline and n in offline]

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Begin to return leadership to preferred leaders that lead too few of their partitions, or after a pause."""
        settings = self._shared.settings
        if settings.rebalance_every_s is None:
            return  # it was turned off after the alarm had been set
        led_by_others = self._cluster.not_preferred
        self._unbalanced = preferred_leader.unbalanced(self._cluster, led_by_others, settings.imbalance_percentage)
        out.wake(Rebalance(), out.now + settings.rebalance_every_s)

    def _balance(self, out: Outbox) -> None:
        left = self._shared.settings.budget.followed
        for at in islice(self._unbalanced, left):
            left -= 1
            if at is not None:
                self._memory.prefer(at, is_asked=False)
                self._shared.agenda.add(at.topic, (at.partition,))
        if not left:
            out.wake(Again(), out.now)

    def close_step(self, step: Step, out: Outbox) -> None:
        """Note partitions whose decision needs settings that are not read yet."""
        if step.looks:
            self._await_settings.setdefault(step.name, {}).update(step.numbers)

    def end_step(self, step: Step, *, is_decided: bool) -> None:
        """Clear settings and preferences that this step has used."""
        self._memory.use_up_config(step.name, step.numbers)
        if is_decided:
            self._memory.forget_preferences(step.name, step.numbers)


def _each_once(partitions: Iterable[TopicPartition]) -> tuple[int, Iterator[TopicPartition]]:
    distinct = dict.fromkeys(partitions)
    return len(distinct), iter(distinct)


def _every(topics: remembered.Numbers) -> tuple[int, Iterator[TopicPartition]]:
    """All that are in an index now, in order, and how many they are."""
    now = [(name, sorted(numbers)) for name, numbers in sorted(topics.items())]
    return sum(len(numbers) for _, numbers in now), (TopicPartition(name, n) for name, numbers in now for n in numbers)
