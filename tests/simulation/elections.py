"""Is an elected leader the right one, as far as the controller could know?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zk_layout.ids import NO_LEADER, TopicPartition
from zk_layout.znodes.partition_state import PartitionState, StateAddress

if TYPE_CHECKING:
    from tests.simulation.checker import Checker


def unsound(
    checker: Checker, at: TopicPartition, before: PartitionState, after: PartitionState, since: float
) -> str | None:
    """What is wrong with a change of leader, by any writer; None if nothing is.

    Units:
        `since` is when its server last stopped lagging.
    """
    brokers, assignment = checker.world.brokers, checker.topics[at.topic].partitions[at.partition]
    if after.leader == NO_LEADER:
        serving = [r for r in before.isr if r in brokers and brokers[r].serves(at, since) and brokers[r].can_be_read]
        if serving and (at not in checker.answers.forced or any(r in before.isr for r in after.isr)):
            return f"{at} was left without a leader, though {serving} are in sync and live: {before}"
        return None
    if after.leader in before.isr:
        return None
    serving = [r for r in assignment.replicas if r in brokers and brokers[r].serves(at, since)]
    with_log = [r for r in serving if brokers[r].has_records(at)]
    # No broker reports that its log of a partition is gone, or was never made. A controller knows what it had deleted.
    if with_log and checker.announcements.has_had_deleted(after.controller_epoch, after.leader, at):
        return f"{at} elected {after.leader}, whose log the controller had deleted, though {with_log} have one"
    caught_up = checker.caught_up.get(at, {})
    others = [r for r in with_log if r in caught_up and r not in assignment.removing]
    if after.leader in assignment.adding and after.leader not in caught_up and others:
        return f"{at} elected {after.leader}, which is being added and never was in sync; {others} were"
    return None


def unfounded(
    checker: Checker, at: TopicPartition, before: PartitionState, after: PartitionState, since: float
) -> str | None:
    """What is wrong with a controller's write of leader and ISR; None if nothing is.

    Units:
        `since` is when its server last stopped lagging.
    """
    brokers, assignment = checker.world.brokers, checker.topics[at.topic].partitions[at.partition]
    replicas, is_unasked = assignment.replicas, at not in checker.answers.forced
    if after.leader == NO_LEADER:
        # A leader may not have waited for a member of its ISR that was not among the replicas, and is added only now.
        strays = [r for r in assignment.adding if r not in checker.former.get(at, assignment).replicas]
        forgotten = [r for r in before.isr if r in replicas and r in brokers and r not in (*after.isr, *strays)]
        if forgotten and is_unasked:
            return f"{at} has no leader, and the ISR {forgotten} is forgotten: {before}"
    else:
        gone = [r for r in after.isr if r in brokers and brokers[r].is_gone(since)]
        # A request may come first; a writer of the partition since then shrinks the ISR with its next write, unless the
        # leader could not be informed.
        ago_s = checker.world.clock.now - checker.written_at[at]
        is_informed = after.leader not in brokers or brokers[after.leader].can_be_read
        is_written = is_informed and after.controller_epoch == before.controller_epoch
        is_written &= any(brokers[r].is_gone(since, ago_s) for r in gone)
        is_next = after.leader != before.leader or is_written
        if gone and (is_next or any(r not in before.isr for r in gone)):
            return f"{at} got the leader {after.leader} and the ISR {list(after.isr)}, though {gone} are gone: {before}"
    if after.leader == before.leader:
        return None
    if after.leader != NO_LEADER:
        kept = before.leader in after.isr and before.leader in brokers and not brokers[before.leader].is_registered
        if kept and after.leader != replicas[0] and not assignment.is_moving:
            return (
                f"{at} elected {after.leader} instead of {before.leader}, which is gone and still in its ISR: {after}"
            )
        was_in_sync = after.leader in before.isr or after.leader in checker.caught_up.get(at, {})
        if after.leader in assignment.adding and not was_in_sync and is_unasked:
            return f"{at} elected {after.leader}, which is being added and never was in sync: {before}"
    in_sync = [r for r in before.isr if r in replicas and r in brokers and brokers[r].serves(at, since)]
    if after.leader not in (NO_LEADER, *before.isr) and in_sync and is_unasked:
        return f"{at} elected {after.leader}, which was not in sync, though {in_sync} are and live: {before}"
    leads_on = before.leader in brokers and brokers[before.leader].leads_on(at, since)
    if before.leader in replicas and leads_on and after.leader not in before.isr:
        return f"{at} got the leader {after.leader}, though {before.leader} leads on: {before}"
    return None


def ill_begun(checker: Checker, at: TopicPartition, first: PartitionState, since: float) -> str | None:
    """What is wrong with the first state of a partition; None if nothing is.

    Units:
        `since` is when the writer's server last stopped lagging.
    """
    brokers, now = checker.world.brokers, checker.world.clock.now
    ago_s = now - checker.decided_at.get(StateAddress(at.topic, at.partition).path, now)
    gone = [r for r in first.isr if r in brokers and brokers[r].is_gone(since, ago_s)]
    return f"{at} began with the ISR {list(first.isr)}, though {gone} are gone" if gone else None
