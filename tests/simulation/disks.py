"""Does no move begin that copies to a broker whose disks have no room for it, or do not say that they have?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct, field

from controller.core.messages.effects import Commit, DescribeDisks, Effect
from controller.core.messages.events import Directory, DisksDescribed, Event, LogDirsDescribed, ReplicaSize
from controller.core.reassignment.disk_room import AGAIN_S, COUNTS_S
from controller.core.settings import WRITES_A_TRANSACTION
from controller.core.state.cluster import ClusterState
from tests.simulation.broken import hold
from tests.simulation.decided import begun, is_put_right
from zk_layout.ids import NO_LEADER, BrokerEpoch, BrokerId, ControllerEpoch, Replicas, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World

ANSWER_S = 0.05
RECORD_BYTES = 1000
TOTAL_BYTES = 100_000_000
# What else is on a disk changes from time to time; it leaves more than enough, enough for a few records, or too little.
SLOT_S = 40.0
A_FEW_BYTES = 30_000
# As long as a turn takes to send what it has decided.
AT_ONCE_S, IN_PARTS_S = 0.5, 10.0

Life = tuple[BrokerId, BrokerEpoch]


class _Term(Struct):
    """What a term has heard: by life of a broker the times at which it said how much may be written, and how much; and
    the smallest size of each partition whose move waits. `lives` are those of brokers, since when it knows them.
    """

    epoch: ControllerEpoch
    said: dict[Life, list[tuple[float, int]]] = field(default_factory=dict)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    asked_at: dict[Life, float] = field(default_factory=dict)
    lives: dict[Life, float] = field(default_factory=dict)


class Disks:
    """The disks of one world, and what terms begin."""

    def __init__(self, world: World, *, may_be_set: bool) -> None:
        self.world = world
        random = Random(f"{world.seed}/disks")
        self.percent = random.choice((10, 50)) if may_be_set and random.random() < 0.4 else 0
        self.begins_unknown = random.random() < 0.4
        self._has_old_brokers = random.random() < 0.3
        self.refused = 0  # questions to brokers that do not know them
        self.full = 0  # answers without room
        self._terms: dict[BrokerId, _Term] = {}

    @property
    def are_waited_for(self) -> bool:
        """Whether moves wait for room in this world."""
        return self.percent > 0

    def is_old(self, broker: BrokerId) -> bool:
        """Whether a broker does not know how to tell its room."""
        return self._has_old_brokers and Random(f"{self.world.seed}/disks/{broker}").random() < 0.4

    def directory(self, broker: BrokerId) -> Directory:
        """The only log directory of a broker, at this moment."""
        kept = TOTAL_BYTES * self.percent // 100
        slot = int(self.world.clock.now // SLOT_S)
        spare = Random(f"{self.world.seed}/disks/{broker}/{slot}").choice((TOTAL_BYTES // 3, A_FEW_BYTES, -A_FEW_BYTES))
        if self.world.is_peaceful:
            spare = TOTAL_BYTES // 3
        held = self.world.brokers[broker].disk.values()
        own = RECORD_BYTES * sum(len(replica.records) for replica in held)
        return Directory("/disk", TOTAL_BYTES, kept + spare - own)

    # ---- brokers --------------------------------------------------------------------------------------------

    def describe(self, asked: DescribeDisks, emit: Callable[[Event], None]) -> None:
        """A broker answers a moment later, if it is up and new enough."""
        self.world.clock.after(ANSWER_S, lambda: emit(self._described(asked)))

    def _described(self, asked: DescribeDisks) -> DisksDescribed:
        broker = self.world.brokers.get(asked.broker)
        if broker is None or broker.model is None or broker.is_cut_off:
            return DisksDescribed(asked.broker, asked.broker_epoch, error="connection refused")
        if self.is_old(asked.broker):
            self.refused += 1
            return DisksDescribed(asked.broker, asked.broker_epoch, error="it is too old")
        sizes = {
            at: ReplicaSize(RECORD_BYTES * len(broker.disk[at].records)) for at in asked.partitions if at in broker.disk
        }
        return DisksDescribed(asked.broker, asked.broker_epoch, (self.directory(asked.broker),), sizes)

    # ---- what is decided ------------------------------------------------------------------------------------

    def heard(self, controller: Controller, events: Iterable[Event]) -> None:
        """A term takes in what brokers say."""
        if not self.are_waited_for:
            return
        term = self._term(controller)
        for event in events:
            if isinstance(event, DisksDescribed) and event.error is None:
                (directory,) = event.directories
                spare = directory.usable_bytes - directory.total_bytes * self.percent // 100
                self.full += spare < 0
                said = term.said.setdefault((event.broker, event.broker_epoch), [])
                said.append((self.world.clock.now, spare))
            elif isinstance(event, LogDirsDescribed) and event.is_of_waiting:
                for at, size in event.sizes.items():
                    term.sizes[at] = min(size.size_bytes, term.sizes.get(at, size.size_bytes))

    def asked(self, controller: Controller, effects: Iterable[Effect]) -> None:
        """Judge whom a term asks for room."""
        for asked in [effect for effect in effects if isinstance(effect, DescribeDisks)]:
            what, life = f"{controller.name} asks {asked.broker} for room", (asked.broker, asked.broker_epoch)
            term, now = self._term(controller), self.world.clock.now
            if not self.are_waited_for:
                hold(f"{what}, though moves do not wait for disks")
            if now - term.asked_at.get(life, now - AGAIN_S) < AGAIN_S:
                hold(f"{what} after {now - term.asked_at[life]} s")
            term.asked_at[life] = now

    def decided(self, controller: Controller, commits: list[Commit], state: ClusterState) -> None:
        """Judge what a term begins, of which `state` is what it knows."""
        if not self.are_waited_for or self.begins_unknown:
            return  # or else one would have to know what the term did not know
        term = self._term(controller)
        for broker, registered in state.brokers.items():
            term.lives.setdefault((broker, registered.epoch), self.world.clock.now)
        for at, held, to in begun(commits, state):
            if is_put_right(held.assignment, held.state, self.world.controllers):
                continue
            in_sync = () if held.state is None else held.state.isr
            for broker in (r for r in to.adding if r not in in_sync and r in state.brokers):
                wrong = self._wrong(term, at, (broker, state.brokers[broker].epoch))
                if wrong:
                    hold(f"{controller.name} begins to move {at} to {list(to.target)}, though {broker} {wrong}")

    def _wrong(self, term: _Term, at: TopicPartition, life: Life) -> str:
        """Why a move may not begin, whichever of the latest answers it was decided by; empty if it may."""
        now, said = self.world.clock.now, term.said.get(life, [])
        since = now - self._lag_s
        counting = said[max(0, bisect_right(said, since, key=lambda held: held[0]) - 1) :]
        counting = [held for held in counting if held[0] + COUNTS_S >= since]
        if term.lives[life] > since:
            return ""  # it was decided before the broker restarted
        if not counting:
            return "has not said that it has room"
        if at not in term.sizes:
            return "would receive an unknown number of bytes"
        most = max(spare for _, spare in counting)
        return f"has room for {most} bytes, not {term.sizes[at]}" if most < term.sizes[at] else ""

    @property
    def _lag_s(self) -> float:
        is_in_parts = self.world.has_small_turns or self.world.plan.writes_a_transaction < WRITES_A_TRANSACTION
        return IN_PARTS_S if is_in_parts else AT_ONCE_S

    def _term(self, controller: Controller) -> _Term:
        term = self._terms.get(controller.own_id)
        if term is None or term.epoch != controller.epoch:
            term = self._terms[controller.own_id] = _Term(controller.epoch)
        return term

    # ---- the end --------------------------------------------------------------------------------------------

    def may_wait(self, at: TopicPartition, target: Replicas) -> bool:
        """Whether in the end, when all disks have room, a move may still wait: where something is not known."""
        if not self.are_waited_for or self.begins_unknown:
            return False
        checker = self.world.checker
        unled = {
            TopicPartition(name, number): assignment
            for name, topic in checker.topics.items()
            for number, assignment in topic.partitions.items()
            if not self._is_led(TopicPartition(name, number))
        }
        held = checker.topics[at.topic].partitions[at.partition]
        added = {r for r in target if r not in held.original}
        if not added:
            return False
        is_on_its_way = any(not added.isdisjoint(assignment.adding) for assignment in unled.values())
        return at in unled or is_on_its_way or any(self.is_old(broker) for broker in added)

    def _is_led(self, at: TopicPartition) -> bool:
        state = self.world.checker.states.get(at)
        leader = NO_LEADER if state is None else state.leader
        return leader in self.world.brokers and self.world.brokers[leader].is_registered
