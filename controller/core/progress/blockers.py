"""Why is a move not done yet? One sentence about what it waits for."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from controller.core.quantities import size, span
from controller.core.stage import Stage, stage, still_to_go
from controller.core.state.topics import Partition
from controller.core.state.view import Cluster
from zk_layout.ids import NO_LEADER, BrokerId, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.reassignment_status import ReplicaProgress


class Outages(Struct):
    """Since when brokers have been offline, or not answering; memory of one term.

    Units:
        Monotonic seconds. `began` is the start of this term's record: brokers offline then may have been so for longer.
    """

    began: float = 0.0
    offline_since: dict[BrokerId, float] = field(default_factory=dict)
    silent_since: dict[BrokerId, tuple[float, str]] = field(default_factory=dict)

    def absence(self, broker: BrokerId, now: float) -> str:
        """Describe how long a broker has been offline."""
        since = self.offline_since.get(broker)
        if since is None:
            return f"broker {broker} has been offline for at least {span(now - self.began)}"
        return f"broker {broker} has been offline for {span(now - since)}"

    def silence(self, broker: BrokerId, now: float) -> str:
        """Describe how long a broker has not answered, and why."""
        since, reason = self.silent_since[broker]
        return f"has not answered for {span(now - since)} ({reason})"


class Seen(Struct):
    """One moving partition, with what is known beyond the facts.

    Shape:
        `confirmed` are the brokers that confirmed the deletion of their replica; `replicas` are the receiving ones, and
        `closing` is how fast the gaps of those that were measured long enough close, in bytes a second.
    """

    at: TopicPartition
    held: Partition
    confirmed: frozenset[BrokerId]
    replicas: tuple[ReplicaProgress, ...]
    closing: Mapping[BrokerId, float | None] = {}


def waits_for(seen: Seen, cluster: Cluster, outages: Outages, now: float) -> str | None:
    """Explain what the move of one partition waits for; None if the next step is the controller's."""
    state, assignment = seen.held.state, seen.held.assignment
    if state is None:
        return None
    where = stage(assignment, state)
    if where is Stage.CATCHING_UP:
        return _catching_up(seen, state, cluster, outages, now)
    if where is Stage.HANDING_OVER:
        if any(r in state.isr and cluster.is_online(r, seen.at) for r in assignment.target):
            return None
        reasons = [_why_offline(r, seen.at, cluster, outages, now) for r in assignment.target]
        return f"no replica of the target can lead: {'; '.join(filter(None, reasons))}"
    waiting = [r for r in still_to_go(assignment, state, (), seen.confirmed) if cluster.is_registered(r)]
    if waiting:
        return f"waits for {_brokers(waiting)} to confirm that the replica there is deleted"
    return None


def _catching_up(seen: Seen, state: PartitionState, cluster: Cluster, outages: Outages, now: float) -> str:
    at, leader = seen.at, state.leader
    if leader == NO_LEADER or not cluster.is_online(leader, at):
        in_sync = [_why_offline(r, at, cluster, outages, now) for r in state.isr]
        return f"no replica leads the partition, so nothing is copied: {'; '.join(filter(None, in_sync))}"
    if leader in outages.silent_since:
        return f"the leader {leader} {outages.silence(leader, now)}"
    progress = {replica.broker: replica for replica in seen.replicas}
    late = [r for r in seen.held.assignment.target if r not in state.isr]
    return "; ".join(
        _why_offline(r, at, cluster, outages, now)
        or _why_silent(r, outages, now)
        or _why_late(r, progress.get(r), seen.closing.get(r))
        for r in late
    )


def _why_offline(broker: BrokerId, at: TopicPartition, cluster: Cluster, outages: Outages, now: float) -> str:
    """Empty if the replica is online."""
    if broker not in cluster.brokers:
        return outages.absence(broker, now)
    if broker in cluster.offline_replicas.get(at, ()):
        return f"the log directory of replica {broker} is offline"
    return f"broker {broker} is shutting down" if broker in cluster.shutting_down else ""


def _why_silent(broker: BrokerId, outages: Outages, now: float) -> str:
    return f"broker {broker} {outages.silence(broker, now)}" if broker in outages.silent_since else ""


def _why_late(broker: BrokerId, progress: ReplicaProgress | None, closing: float | None) -> str:
    if progress is None or progress.copied_bytes is None or progress.total_bytes is None:
        return f"replica {broker} is not in sync yet"
    behind = progress.total_bytes - progress.copied_bytes
    if not behind:
        return f"replica {broker} has copied everything and is to join the ISR"
    if progress.bytes_per_second is None:
        return f"replica {broker} is {size(behind)} behind"
    if not progress.bytes_per_second:
        return f"replica {broker} is {size(behind)} behind and copies nothing"
    note = ""
    if closing is not None and progress.remaining_seconds is None:
        note = f", while new data comes at {size(progress.bytes_per_second - closing)}/s"
    return f"replica {broker} is {size(behind)} behind at {size(progress.bytes_per_second)}/s{note}"


def _brokers(brokers: list[BrokerId]) -> str:
    return f"broker {brokers[0]}" if len(brokers) == 1 else f"brokers {', '.join(map(str, brokers))}"
