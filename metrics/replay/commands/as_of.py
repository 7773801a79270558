"""What was the cluster's state at a time, what differs between two, and how does one go back?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec
from msgspec import Struct, structs

from controller.core.state.cluster import ClusterState
from metrics.replay.files.known import NotKnown
from metrics.replay.files.state import END_OF_TIME, History, count_of, state_since, zxid_at
from zk_layout.facts import Fact
from zk_layout.ids import NO_LEADER, TopicPartition
from zk_layout.storage.cluster_facts import facts_of
from zk_layout.storage.damage import Damage
from zk_layout.storage.tree import Tree
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class PointInTime(Struct, frozen=True):
    """The cluster as ZooKeeper showed it after one transaction.

    Shape:
        `since` is the transaction from which on it is known, if nothing shows the time before; else 0.
    """

    zxid: int
    assignments: dict[TopicPartition, Assignment]
    states: dict[TopicPartition, PartitionState]
    brokers: frozenset[int]
    controller: int | None
    controller_epoch: int
    since: int = 0

    @property
    def topics(self) -> frozenset[str]:
        """The topics that exist."""
        return frozenset(at.topic for at in self.assignments)

    @property
    def moving(self) -> tuple[TopicPartition, ...]:
        """The partitions being moved."""
        return tuple(sorted(at for at, a in self.assignments.items() if a.is_moving))

    @property
    def leaderless(self) -> tuple[TopicPartition, ...]:
        """The partitions without a leader."""
        return tuple(sorted(at for at, s in self.states.items() if s.leader == NO_LEADER))

    @property
    def under_replicated(self) -> tuple[TopicPartition, ...]:
        """The under-replicated partitions, as Kafka counts."""
        return tuple(
            sorted(
                at
                for at, a in self.assignments.items()
                if (s := self.states.get(at)) is not None and a.is_under_replicated(s.isr)
            )
        )

    @property
    def sentence(self) -> str:
        """The state in one line."""
        only = f"only what was written from {self.since:#x} on is known, for no whole snapshot is from before: "
        return (
            f"{only if self.since else ''}"
            f"{len(self.topics)} topics, {len(self.assignments)} partitions on {len(self.brokers)} brokers; "
            f"{len(self.moving)} moving, {len(self.under_replicated)} under-replicated, "
            f"{len(self.leaderless)} leaderless; controller "
            f"{'none' if self.controller is None else self.controller}, epoch {self.controller_epoch}"
        )


def cluster_at(history: History, damage: list[Damage], as_of: int = END_OF_TIME, chroot: str = "") -> PointInTime:
    """The cluster after the transaction `as_of`."""
    return cluster_of(*state_since(history, damage, as_of), chroot)


def cluster_of(tree: Tree, since: int, chroot: str = "") -> PointInTime:
    """The cluster that these znodes describe; `since` is the transaction from which on they are known."""
    return structs.replace(folded(facts_of(tree, chroot), tree.last_zxid), since=since)


def folded(facts: Iterable[Fact], zxid: int) -> PointInTime:
    """The cluster that facts describe, folded as a controller folds them; its state does not include the leader."""
    cluster = ClusterState()
    controller, epoch = None, 0
    for fact in facts:
        match fact:
            case Fact(address=ControllerAddress()):
                controller = fact.value.broker if isinstance(fact.value, ControllerClaim) else None
            case Fact(address=ControllerEpochAddress()):
                epoch = fact.value if isinstance(fact.value, int) else 0
            case _:
                cluster.apply(fact)
    partitions = {
        TopicPartition(name, number): partition
        for name, topic in cluster.topics.views.items()
        for number, partition in topic.partitions.items()
        if partition.assignment.replicas
    }
    assignments = {at: partition.assignment for at, partition in partitions.items()}
    states = {at: partition.state for at, partition in partitions.items() if partition.state is not None}
    return PointInTime(zxid, assignments, states, frozenset(cluster.brokers), controller, epoch)


def moment(history: History, text: str) -> int:
    """The zxid that the text stands for: a zxid (`0x2a` or `42`), or a time in ISO form, UTC without a zone.

    Raises:
        NotKnown: the history does not reach there, or transactions of that time are missing.
        ValueError: neither a zxid nor a time.
    """
    try:
        zxid = int(text, 0)
    except ValueError:
        zxid = _zxid_of(history, text)
    begin = _begin(history)
    if zxid < begin:
        at = f", at {as_time(history.pieces[0].from_ms)}" if history.first_zxid == begin else ""
        raise NotKnown(f"{text} is before the history begins: zxid {begin:#x}{at}")
    if zxid > max([history.last_zxid, *(snapshot.zxid for snapshot in history.snapshots)]):
        raise NotKnown(_after(history, text))
    return zxid


def _zxid_of(history: History, text: str) -> int:
    at_ms = time_ms(text)
    if not history.pieces:
        known = ", ".join(f"{snapshot.zxid:#x}" for snapshot in history.snapshots[:5])
        raise NotKnown(f"{text}: only logs know times, and there is none; snapshots show zxid {known or 'none'}")
    if at_ms > max(piece.to_ms for piece in history.pieces):
        raise NotKnown(_after(history, text))
    zxid = zxid_at(history, at_ms)
    for gap, _ in history.order.gaps:
        if gap.after == zxid and at_ms > next(p.to_ms for p in history.pieces if p.last == zxid):
            raise NotKnown(f"{text} is not known: {count_of(gap)} missing between {gap.after:#x} and {gap.before:#x}")
    return zxid


def _after(history: History, text: str) -> str:
    """The sentence for a moment after the last one known."""
    snapshots = [snapshot.zxid for snapshot in history.snapshots]
    end, at = max([history.last_zxid, *snapshots]), ""
    if end == history.last_zxid and history.pieces:
        at = f", at {as_time(history.pieces[-1].to_ms)}"
    return f"{text} is after the history ends: zxid {end:#x}{at}; what came later is not known"


def _begin(history: History) -> int:
    """The first zxid at which the state is known; a server's first snapshot, 0, is empty whatever others hold."""
    first = history.first_zxid
    shown = [snapshot.zxid for snapshot in history.snapshots if snapshot.zxid or not history.pieces]
    return first if first == 1 else min([first, *shown])


def as_time(at_ms: int) -> str:
    """A time in ISO form, UTC.

    >>> as_time(1795248420000)
    '2026-11-21T08:07:00+00:00'
    """
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def time_ms(text: str) -> int:
    """A time in ISO form, in milliseconds; UTC without a zone.

    >>> time_ms("2026-11-21T08:07:00")
    1795248420000

    Raises:
        ValueError: not a time.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text} is no time: write one as 2026-11-21T08:07:00, or a zxid for --as-of and --diff"
        ) from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def as_reassignment_json(state: PointInTime, only: frozenset[TopicPartition] | None = None) -> bytes:
    """The JSON with which `kafka-reassign-partitions --reassignment-json-file` restores these assignments.

    For a partition that was moving it has the target.
    """
    chosen = sorted(at for at in state.assignments if only is None or at in only)
    entries = [
        {"topic": at.topic, "partition": at.partition, "replicas": state.assignments[at].target} for at in chosen
    ]
    return msgspec.json.encode({"version": 1, "partitions": entries})


def differences(before: PointInTime, after: PointInTime) -> Iterator[str]:
    """What changed between two states, one line each, in a stable order."""
    for broker in sorted(before.brokers ^ after.brokers):
        yield f"broker {broker} {'appeared' if broker in after.brokers else 'is gone'}"
    if before.controller != after.controller or before.controller_epoch != after.controller_epoch:
        yield (
            f"controller {before.controller} (epoch {before.controller_epoch}) → "
            f"{after.controller} (epoch {after.controller_epoch})"
        )
    for topic in sorted(before.topics ^ after.topics):
        yield f"topic {topic} {'was created' if topic in after.topics else 'was deleted'}"
    shared = before.topics & after.topics
    for at in sorted({*before.assignments, *after.assignments}):
        if at.topic in shared:
            yield from _partition(at, before, after)


def _partition(at: TopicPartition, before: PointInTime, after: PointInTime) -> Iterator[str]:
    was, now = before.assignments.get(at), after.assignments.get(at)
    if was is None or now is None:
        yield f"{at} {'was added' if was is None else 'is gone'}"
        return
    if was != now:
        yield f"{at} replicas {_written(was)} → {_written(now)}"
    led, leads = before.states.get(at), after.states.get(at)
    if led is None or leads is None:
        return
    if led.leader != leads.leader:
        yield f"{at} leader {led.leader} → {leads.leader}"
    if set(led.isr) != set(leads.isr):
        yield f"{at} ISR {list(led.isr)} → {list(leads.isr)}"


def _written(assignment: Assignment) -> str:
    text = str(list(assignment.replicas))
    if assignment.is_moving:
        text += f" (adding {list(assignment.adding)}, removing {list(assignment.removing)})"
    return text


def changed_partitions(before: PointInTime, after: PointInTime) -> frozenset[TopicPartition]:
    """The partitions of both states whose target differs."""
    return frozenset(
        at
        for at, was in before.assignments.items()
        if at in after.assignments and after.assignments[at].target != was.target
    )
