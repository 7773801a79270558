"""Does no replica leave before its target is in sync, or in a way that lets it come back?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.core.stage import in_force
from tests.simulation.broken import Broken
from zk_layout.ids import SessionId, TopicName, TopicPartition
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic

if TYPE_CHECKING:
    from tests.simulation.checker import Checker


class Departures:
    """Compares a topic with what it was before."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._world = checker.world
        self._was_in_sync: dict[TopicPartition, bool] = {}

    def forget(self, at: TopicPartition) -> None:
        """Its topic is gone."""
        self._was_in_sync.pop(at, None)

    def note_sync(self, at: TopicPartition) -> None:
        """Note whether all of a move's target is in sync: from then on the others may leave."""
        topic, state = self._checker.topics.get(at.topic), self._checker.states.get(at)
        if topic is None or state is None or at.partition not in topic.partitions:
            return
        assignment = topic.partitions[at.partition]
        if assignment.is_moving and all(r in state.isr for r in assignment.target):
            self._was_in_sync[at] = True

    def nobody_left_early(self, before: Topic, states: dict[TopicPartition, PartitionState], name: TopicName) -> None:
        """Check that a move lets replicas go only after its target was in sync, and never the last in-sync ones."""
        after = self._checker.topics[name]
        for number, held in before.partitions.items():
            at, now = TopicPartition(name, number), after.partitions[number]
            state = self._checker.states.get(at)
            gone = [r for r in held.replicas if r not in now.replicas]
            is_given_up = at in self._checker.answers.forced and self._checker.may_be_cut  # the state follows
            if gone and state is not None and not any(r in now.replicas for r in state.isr) and not is_given_up:
                raise Broken(f"{at} has no in-sync replica among {list(now.replicas)}; ISR {list(state.isr)}")
            lets_go = bool(held.adding) and any(r in held.removing for r in gone)
            is_served = state is not None and all(r in state.isr for r in now.original)  # a later target was in sync
            if at in self._checker.edited:
                continue
            is_early = lets_go and state is not None and not is_served and not self._was_in_sync.get(at)
            if is_early and not self._has_shrunk_between(at, held, now, states.get(at)):
                raise Broken(f"{at} let {gone} go before {list(held.target)} were in sync")
            if now != held:
                self._was_in_sync.pop(at, None)
                self.note_sync(at)

    def _has_shrunk_between(
        self, at: TopicPartition, held: Assignment, now: Assignment, before: PartitionState | None
    ) -> bool:
        """Whether one transaction carried out two requests, the first of which had nothing to wait for.

        A move that only removes replicas ends at once if none of these is in sync. The next one starts from
        the remaining ones, in sync or not.
        """
        start, after = now.original, self._checker.states[at]
        in_sync = after.isr if before is None else (*before.isr, *after.isr)
        is_arrived = all(r in held.original for r in start) and all(r in start for r in in_sync)
        return is_arrived and self._world.folder.was_wanted(at, start)

    def nobody_left_apart(self, former: Topic, name: TopicName, touched: dict[str, SessionId]) -> None:
        """Unless a decision is split, live replicas leave with a new leader epoch, so no leader adds them again."""
        if self._checker.may_be_cut:
            return
        for number, held in former.partitions.items():
            at, now = TopicPartition(name, number), self._checker.topics[name].partitions[number]
            state = self._checker.states.get(at)
            if state is None or now == held or at in self._checker.edited or StateAddress(name, number).path in touched:
                continue
            # Where the leader has shrunk the ISR meanwhile, it knows the replicas with which its epoch began.
            epoch, announced = self._checker.announced.get(at, (state.leader_epoch, held.replicas))
            known = announced if epoch == state.leader_epoch else held.replicas
            before = [r for r in in_force(held, state).replicas if r in held.replicas]
            gone = [r for r in before if r in known and r not in now.replicas]
            if gone:
                raise Broken(f"{at} let {gone} go, and its leader epoch stayed {state.leader_epoch}")

    def target_lives(
        self, before: Topic, states: dict[TopicPartition, PartitionState], name: TopicName, session: SessionId
    ) -> None:
        """No move removes live replicas in one step while all brokers of its target are dead.

        A partition that was never led has no records to lose.
        """
        brokers, since = self._world.brokers, self._world.ensemble.shown_in_time_since(session)
        for number, held in before.partitions.items():
            at, now = TopicPartition(name, number), self._checker.topics[name].partitions[number]
            is_excused = at not in states or at in self._checker.edited or at in self._checker.answers.forced
            if held.is_moving or now.is_moving or is_excused:
                continue
            left = [r for r in held.replicas if r not in now.replicas and r in brokers and brokers[r].is_registered]
            if left and all(r in brokers and brokers[r].is_gone(since) for r in now.replicas):
                raise Broken(f"{at} let {left} go for {list(now.replicas)}, none of which lives")
