"""Does nothing begin while the cluster is not as moves need it, except what cures it, nor outside of the windows?"""

from __future__ import annotations

from collections.abc import Iterator, Set
from math import inf
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct, field

from controller.core.messages.effects import Commit
from controller.core.settings import WRITES_A_TRANSACTION
from controller.core.state.cluster import ClusterState
from controller.core.state.topics import Partition
from controller.core.windows import Window, is_open
from tests.simulation.broken import hold
from tests.simulation.decided import begun, is_put_right
from tests.simulation.refusals import Concern
from tests.simulation.wall_clocks import TOKENS_READ_EVERY_S, ZERO_S
from zk_layout.ids import NO_LEADER, BrokerEpoch, BrokerId, ControllerEpoch, Replicas, TopicPartition
from zk_layout.znodes.controller_ids import ControllerIds, ControllerIdsAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World

MIN_ISR = 2
# A term looks at all that it has read in the same turn, or at some of it at a time; decisions may be sent in parts.
AT_ONCE_S, IN_PARTS_S = 0.5, 10.0
# A term is shown the wall clock, which may have jumped, whenever it reads the delegation tokens.
CLOCK_SHOWN_S = 2 * TOKENS_READ_EVERY_S + IN_PARTS_S
HALF_A_DAY = 12 * 60


class _Term(Struct):
    """Since when a term knows of a partition below its min ISR, of brokers that are away, and of each broker's life.

    Shape:
        `registered` begins with the term, `lives` before it.
    """

    epoch: ControllerEpoch
    below_since: float | None = None
    away_since: dict[BrokerId, float] = field(default_factory=dict)
    shut_since: float | None = None
    lives: dict[BrokerId, tuple[BrokerEpoch, float]] = field(default_factory=dict)
    registered: dict[BrokerId, tuple[BrokerEpoch, float]] = field(default_factory=dict)


class Gates:
    """What moves need in one world, and what terms begin nevertheless."""

    def __init__(self, world: World, *, may_be_set: bool) -> None:
        self.world = world
        random = Random(f"{world.seed}/gates")
        self.need_min_isr, self.need_brokers = (may_be_set and random.random() < 0.35 for _ in range(2))
        self.windows = _windows(random) if may_be_set and random.random() < 0.25 else ()
        self.after_s = random.choice((0.0, 0.0, 5.0, 20.0))
        self.receivers_s = random.choice((5.0, 20.0)) if may_be_set and random.random() < 0.35 else 0.0
        self._terms: dict[BrokerId, _Term] = {}

    @property
    def are_set(self) -> bool:
        """Whether moves need anything here."""
        return self.need_min_isr or self.need_brokers or bool(self.windows) or self.receivers_s > 0

    def decided(self, controller: Controller, commits: list[Commit], state: ClusterState) -> None:
        """A turn of a term is over: the term knows what `state` holds."""
        if not self.are_set:
            return
        now, term = self.world.clock.now, self._terms.get(controller.own_id)
        if term is None or term.epoch != controller.epoch:
            term = self._terms[controller.own_id] = _Term(controller.epoch)
        is_below = self.need_min_isr and any(_is_below(held) for _, held in _partitions(state))
        term.below_since = (now if term.below_since is None else term.below_since) if is_below else None
        gone = self._away(state) if self.need_brokers else ()
        term.away_since = {broker: term.away_since.get(broker, now) for broker in gone}
        is_shut = bool(self.windows) and not is_open(self.windows, int(self.world.wall_clocks.now(controller.own_id)))
        term.shut_since = (now if term.shut_since is None else term.shut_since) if is_shut else None
        is_shut_for_all = term.shut_since is not None and now - term.shut_since >= CLOCK_SHOWN_S
        away = {b for b, since in term.away_since.items() if self._is_known(since + self.after_s)}
        returned, leaderless = self._returned(term, state), _leaderless(commits, state)
        self._register(term, state)
        live = state.brokers.keys() - returned
        for at, held, to in begun(commits, state):
            if is_put_right(held.assignment, held.state, self.world.controllers):
                continue
            what = f"{controller.name} begins to move {at} to {list(to.target)}"
            if is_shut_for_all:
                hold(f"{what} outside of the windows")
            if recent := self._recent(term, to):
                hold(f"{what}, though {recent} have just registered")
            if at in leaderless or self._may_not_lead(at, held) or _is_short(held, live):
                continue
            if self._is_known(term.below_since):
                hold(f"{what}, though others are below their min ISR")
            not_live = away | returned | {b for b, broker in self.world.brokers.items() if broker.is_leaving}
            if away and not any(r in not_live and r not in to.target for r in held.assignment.replicas):
                hold(f"{what}, though {sorted(away)} are away")

    def _register(self, term: _Term, state: ClusterState) -> None:
        for broker, held in state.brokers.items():
            if term.registered.get(broker, (None, 0.0))[0] != held.epoch:
                term.registered[broker] = held.epoch, self.world.clock.now
        for gone in term.registered.keys() - state.brokers.keys():
            del term.registered[gone]

    def _recent(self, term: _Term, to: Assignment) -> list[BrokerId]:
        """The brokers that receive too early; what was decided before they restarted may be written after that."""
        lives = {broker: term.registered[broker][1] for broker in to.adding if broker in term.registered}
        now = self.world.clock.now
        return [broker for broker, since in lives.items() if self._is_known(since) and now < since + self.receivers_s]

    def _is_known(self, since: float | None) -> bool:
        is_in_parts = self.world.has_small_turns or self.world.plan.writes_a_transaction < WRITES_A_TRANSACTION
        return since is not None and self.world.clock.now - since >= (IN_PARTS_S if is_in_parts else AT_ONCE_S)

    def _may_not_lead(self, at: TopicPartition, held: Partition) -> bool:
        """Whether the leader has lost its log directory, or is shutting down: a term counts it as offline."""
        leader = None if held.state is None else self.world.brokers.get(held.state.leader)
        return leader is not None and (leader.is_offline(at) or leader.is_leaving)

    def _returned(self, term: _Term, state: ClusterState) -> set[BrokerId]:
        """The brokers that restarted just now: a term takes each for one that is away, and then for a new one."""
        now, returned = self.world.clock.now, set[BrokerId]()
        for broker, held in state.brokers.items():
            epoch, since = term.lives.get(broker, (held.epoch, -inf))
            if epoch != held.epoch:
                since = now
            term.lives[broker] = (held.epoch, since)
            if not self._is_known(since):
                returned.add(broker)
        return returned

    def _away(self, state: ClusterState) -> Iterator[BrokerId]:
        for broker, count in state.placement.replica_counts.items():
            if count and broker not in state.brokers and broker not in self.world.controllers:
                yield broker

    # ---- the end --------------------------------------------------------------------------------------------

    def may_wait(self, at: TopicPartition, target: Replicas) -> bool:
        """Whether the cluster is in the end in a state in which this move must wait."""
        if self.windows and not all(map(self._has_been_open, self.world.controllers)):
            return True
        if any(self._may_be_recent(broker) for broker in target):
            return True
        checker, live = self.world.checker, {b for b, held in self.world.brokers.items() if held.is_registered}
        every = [
            (TopicPartition(name, number), assignment)
            for name, topic in checker.topics.items()
            if name not in checker.unwanted
            for number, assignment in topic.partitions.items()
        ]
        is_short = any(self._is_short(one, assignment, live) for one, assignment in every)
        hosting = {r for topic in checker.topics.values() for a in topic.partitions.values() for r in a.replicas}
        recorded = checker.read(ControllerIdsAddress.path)
        is_away = bool(hosting - live - {*(recorded.ids if isinstance(recorded, ControllerIds) else ())})
        assignment = checker.topics[at.topic].partitions[at.partition]
        able = [r for r in target if r in live and not self.world.brokers[r].is_offline(at)]
        if self._is_short(at, assignment, live) and len(able) >= min(MIN_ISR, len(target)):
            return False
        is_leaving = any(r not in target and r not in live for r in assignment.replicas)
        return (self.need_min_isr and is_short) or (self.need_brokers and is_away and not is_leaving)

    def _may_be_recent(self, broker: BrokerId) -> bool:
        """Whether the leader may have to wait for a broker, or did so until a moment ago."""
        leader, latest_s = self.world.leading(), self.receivers_s + IN_PARTS_S
        term = None if leader is None else self._terms.get(leader.own_id)
        since = inf if term is None else term.registered.get(broker, (None, inf))[1]
        return self.receivers_s > 0 and self.world.clock.now < since + latest_s

    def _has_been_open(self, controller: BrokerId) -> bool:
        now = int(self.world.wall_clocks.now(controller))
        return all(is_open(self.windows, now - back) for back in range(0, 4 * round(CLOCK_SHOWN_S), 10))

    def _is_short(self, at: TopicPartition, assignment: Assignment, live: set[BrokerId]) -> bool:
        state: PartitionState | None = self.world.checker.states.get(at)
        if state is None:
            return False
        is_hidden = bool(self.world.refusals.excuse(at.topic) & Concern.ELECTING_UNCLEANLY)
        should = min(len(assignment.original), len(assignment.target))
        is_led = state.leader != NO_LEADER and state.leader in live
        return not is_led or len(state.isr) < (should if is_hidden else min(MIN_ISR, should))


def _windows(random: Random) -> tuple[Window, ...]:
    """Half of each day: a window that opens or shuts within the first minutes of the world."""
    change = int(ZERO_S) // 60 + random.randint(1, 6)
    begin, end = random.choice(((change, change + HALF_A_DAY), (change + HALF_A_DAY, change)))
    return (Window(tuple(range(7)), begin % (2 * HALF_A_DAY), end % (2 * HALF_A_DAY)),)


def _partitions(state: ClusterState) -> Iterator[tuple[TopicPartition, Partition]]:
    for name, view in state.topics.views.items():
        if not view.is_queued_for_deletion:
            yield from ((TopicPartition(name, number), held) for number, held in view.partitions.items())


def _is_below(held: Partition) -> bool:
    """Surely below, whatever else is known."""
    if held.state is None or not held.assignment.replicas:
        return False
    return len(held.state.isr) < min(MIN_ISR, len(held.assignment.original), len(held.assignment.target))


def _is_short(held: Partition, live: Set[BrokerId]) -> bool:
    """Perhaps below, or without a leader: its own move may be a cure."""
    assignment = held.assignment
    should = min(len(assignment.original), len(assignment.target))
    return held.state is None or held.state.leader not in live or len(held.state.isr) < should


def _leaderless(commits: list[Commit], state: ClusterState) -> set[TopicPartition]:
    """The partitions whose leader cannot lead, as these decisions show: its log directory failed, for one."""
    return {
        at
        for commit in commits
        for write in commit.writes
        if isinstance(write.address, StateAddress)
        and isinstance(value := getattr(write, "value", None), PartitionState)
        and (held := state.partition(at := TopicPartition(write.address.topic, write.address.partition))) is not None
        and (value.leader == NO_LEADER or (held.state is not None and held.state.leader not in value.isr))
    }
