"""Elections: who leads each partition, when a leader is gone, when its settings change, and when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.clients.open_requests import Item, denied, refused
from controller.core.clients.refusal import refusal
from controller.core.elections import elect_leaders, first_leader, leader_election, preferred_leader
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Alarm, Asked
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import Result
from controller.core.messages.requests import Election, ElectLeaders
from controller.core.scheduling.agenda import Numbers
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
    """Look whether brokers lead too few of the partitions they are preferred for."""


class Elections(TopicDuty):
    """The leaders of all partitions."""

    requests = (ElectLeaders,)
    parts = (Election,)
    alarms = (Rebalance,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._was_unclean_allowed = shared.cluster.unclean_election
        self._await_settings: dict[TopicName, Numbers] = {}

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """First leaders, leaders that are gone, leaders that are not the preferred ones."""
        return (
            (Precedence.FIRST_LEADER, first_leader.next_step),
            (Precedence.LEADER, leader_election.next_step),
            (Precedence.PREFERENCE, preferred_leader.next_step),
        )

    # ---- requests -------------------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """The partitions named; where none are, those that are led by nobody, or not by their preferred leader."""
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
            partitions: Iterable[TopicPartition] = dict.fromkeys(request.partitions)
        else:
            partitions = sorted(self._cluster.offline if request.is_unclean else self._cluster.not_preferred)
        wanted = Election(request.is_unclean)
        items = [Item(asked.call, index, at, wanted) for index, at in enumerate(partitions)]
        self._shared.requests.open(asked.call, request, items, (), out)
        for name in dict.fromkeys(item.at.topic for item in items):
            self._shared.agenda.add(name, is_urgent=True)

    def consider(self, item: Item, step: Step, out: Outbox) -> None:
        """Another leader because somebody asks for it."""
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
        """Settings matter to partitions without a leader: an unclean election may be allowed, or have been."""
        if changes.is_beginning and self._shared.settings.rebalance_every_s is not None:
            out.wake(Rebalance(), out.now + FIRST_REBALANCE_S)
        if changes.preferred_election is not None:
            self._prefer(changes.preferred_election.partitions)
        for name in changes.configs:
            concerned = {**dict.fromkeys(self._offline(name)), **self._await_settings.pop(name, {})}
            if name in self._cluster.topics:
                self._shared.memory.fresh_configs[name] = dict(concerned)
                self._shared.agenda.add(name, concerned)
        for path, _ in changes.refused:
            address = address_of(path)
            if isinstance(address, TopicConfigAddress):  # nobody is elected uncleanly, and nobody waits for it
                self._shared.agenda.add(address.topic, self._await_settings.pop(address.topic, {}))
        # What was changed before everything was loaded is read when it matters.
        to_read = [TopicConfigAddress(n) for n in changes.reconfigured if not changes.is_beginning and self._offline(n)]
        if to_read:
            out.read(to_read)
        is_allowed, before = self._cluster.unclean_election, self._was_unclean_allowed
        self._was_unclean_allowed = is_allowed
        if is_allowed and not before:
            for at in self._cluster.offline:
                self._shared.agenda.add(at.topic, (at.partition,))

    def _prefer(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            if self._cluster.partition(at) is not None:
                self._shared.memory.preferring[at] = None
                self._shared.agenda.add(at.topic, (at.partition,))

    def _offline(self, name: TopicName) -> list[PartitionId]:
        """Those that have had a leader: no settings matter to the first one."""
        topic, offline = self._cluster.topics.get(name), self._cluster.offline
        had_leader = (n for n, held in topic.partitions.items() if held.state is not None) if topic and offline else ()
        return [n for n in had_leader if TopicPartition(name, n) in offline]

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Give leadership back where brokers lead too little of what they are preferred for."""
        settings = self._shared.settings
        led_by_others = self._cluster.not_preferred
        for at in preferred_leader.unbalanced(self._cluster, led_by_others, settings.imbalance_percentage):
            self._shared.memory.preferring[at] = None
            self._shared.agenda.add(at.topic, (at.partition,))
        if settings.rebalance_every_s is not None:
            out.wake(Rebalance(), out.now + settings.rebalance_every_s)

    def close_step(self, step: Step, out: Outbox) -> None:
        """What needs settings that are still to be read is decided when they have been."""
        if step.looks:
            self._await_settings.setdefault(step.name, {}).update(step.numbers)
