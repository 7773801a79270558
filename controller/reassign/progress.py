"""How far are the moves, how fast are they, and when will they be done?

kafka-zk-controller reports the progress of each receiving replica. With Kafka's own controllers it is computed from the
sizes of log directories, which brokers are asked for repeatedly. Where offsets tell what a replica lacks, that share of
its leader's log counts instead of the difference of sizes (`lagging`). The time left follows from the sums of each
receiving broker (`controller.core.progress.closing`).

Source: KIP-179, "progress"; KIP-113, DescribeLogDirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, structs

from controller.core.progress.closing import WINDOW_S, Closing, Receiving, longest
from controller.reassign.cluster import Directories, Move, PartitionState
from controller.reassign.lagging import NONE, Lag
from controller.reassign.plans import Replica
from zk_layout.ids import BrokerId, Replicas, TopicPartition
from zk_layout.znodes.reassignment_status import ReplicaProgress

_WINDOW_S = 30.0
_MOVES_A_SECOND = 1_000
"""How many a controller of ours measures, at most."""
_GRACE_S = 5.0
"""Brokers learn of a move's end a little later than the controller stops listing it."""


class Moving(Struct, frozen=True):
    """One move in progress, and how far each receiving replica is; `lags` has those whose brokers tell offsets."""

    at: TopicPartition
    move: Move
    received: tuple[ReplicaProgress, ...]
    lags: Mapping[BrokerId, Lag] = {}

    @property
    def stage(self) -> str:
        """The stage as the controller reports it, if it does."""
        if self.move.progress is not None and self.move.progress.stage:
            return self.move.progress.stage
        return "catching up" if self.move.adding else "letting go"

    @property
    def waits_for(self) -> str | None:
        """Why it does not go on, if that is known."""
        return self.move.progress.waits_for if self.move.progress is not None else None

    @property
    def has_begun(self) -> bool:
        """Whether it is more than accepted: a waiting move's new replicas are not among its replicas yet."""
        return not self.move.adding or not set(self.move.replicas).isdisjoint(self.move.adding)


class Ended(Struct, frozen=True):
    """One move that has ended; `is_complete` if the partition has its target replicas."""

    at: TopicPartition
    replicas: Replicas
    target: Replicas

    @property
    def is_complete(self) -> bool:
        """Whether it reached its target and was not cancelled or changed."""
        return self.replicas == self.target


class Snapshot(Struct, frozen=True):
    """All moves at one moment.

    Shape:
        `moving` is sorted by partition; `ended` has all that ended since the first snapshot, in that order;
        `settling` counts those no longer listed while brokers still show other replicas. `receiving` has the brokers
        that copy, and `throttles` the rates of those where they matter; moves that wait are not in these figures.
    """

    moving: tuple[Moving, ...]
    ended: tuple[Ended, ...]
    settling: int
    copied_bytes: int
    total_bytes: int
    bytes_per_second: float | None
    remaining_seconds: float | None
    receiving: tuple[Receiving, ...] = ()
    throttles: Mapping[BrokerId, int] = {}

    @property
    def waiting(self) -> int:
        """How many moves have not begun."""
        return sum(not one.has_begun for one in self.moving)

    @property
    def moves(self) -> int:
        """How many moves there are and were."""
        return len(self.moving) + self.settling + len(self.ended)

    @property
    def completed(self) -> int:
        """How many have their target replicas."""
        return sum(one.is_complete for one in self.ended)

    @property
    def missed(self) -> int:
        """How many ended without them: they were cancelled or changed, or the partition is gone."""
        return len(self.ended) - self.completed

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to wait for."""
        return not self.moving and not self.settling


class _Seen(NamedTuple):
    """What one look brought."""

    now: float
    states: Mapping[TopicPartition, PartitionState]
    directories: Mapping[Replica, Directories]
    lags: Mapping[Replica, Lag]

    def lags_of(self, at: TopicPartition, move: Move) -> list[tuple[Replica, Lag]]:
        """Those of one move."""
        replicas = (Replica(broker, at.topic, at.partition) for broker in move.adding)
        return [(replica, self.lags[replica]) for replica in replicas if replica in self.lags]


class Progress:
    """Follows moves from snapshot to snapshot."""

    def __init__(self, expected: Mapping[TopicPartition, Replicas]) -> None:
        """`expected` are moves that were just started and may end before they are ever listed."""
        self._targets = dict(expected)
        self._ended: dict[TopicPartition, Ended] = {}
        self._missed_since: dict[TopicPartition, float] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._copied: dict[TopicPartition, int] = {}
        self._samples: dict[Replica, deque[tuple[float, int, int]]] = {}
        self._is_exact: dict[Replica, bool] = {}
        self._closing = Closing()

    def awaited(self, moves: Mapping[TopicPartition, Move]) -> list[TopicPartition]:
        """The partitions whose moves have ended and whose replicas have to be looked up."""
        return [at for at in self._targets if at not in moves and at not in self._ended]

    def advance(
        self,
        now: float,
        moves: Mapping[TopicPartition, Move],
        states: Mapping[TopicPartition, PartitionState],
        directories: Mapping[Replica, Directories],
        lags: Mapping[Replica, Lag] = {},
    ) -> Snapshot:
        """The snapshot at this moment.

        Shape:
            `states` has every partition that is `awaited`; with `directories` it may have moving ones too.
        Units:
            `now` in seconds of any clock that only goes forward.
        """
        for at in self.awaited(moves):
            ended = Ended(at, states[at].replicas if at in states else (), self._targets[at])
            if ended.is_complete or now - self._missed_since.setdefault(at, now) > _GRACE_S:
                self._ended[at] = ended
                self._closing.finish(at, is_complete=ended.is_complete)
        for at, move in moves.items():
            self._targets[at] = move.target
            self._ended.pop(at, None)
            self._missed_since.pop(at, None)
        seen = _Seen(now, states, directories, lags)
        moving = tuple(
            Moving(at, move, self._received(seen, at, move), {r.broker: lag for r, lag in seen.lags_of(at, move)})
            for at, move in sorted(moves.items())
        )
        self._follow(now, moving)
        return self._summed(moving, len(self.awaited(moves)))

    def _received(self, seen: _Seen, at: TopicPartition, move: Move) -> tuple[ReplicaProgress, ...]:
        if move.progress is not None:
            return tuple(self._sharpened(seen, at, reported) for reported in move.progress.replicas)
        if at not in seen.states:
            return tuple(ReplicaProgress(broker) for broker in move.adding)
        return tuple(self._measured(seen, at, broker) for broker in move.adding)

    def _sharpened(self, seen: _Seen, at: TopicPartition, reported: ReplicaProgress) -> ReplicaProgress:
        """What our controller reports, from sizes as well, with the gap that offsets show."""
        replica, whole = Replica(reported.broker, at.topic, at.partition), reported.total_bytes
        lag = seen.lags.get(replica)
        if lag is None or whole is None:
            return reported
        exact = self._rated(seen.now, replica, whole - lag.bytes_of(whole), whole)
        rate = reported.bytes_per_second if exact.bytes_per_second is None else exact.bytes_per_second
        return structs.replace(exact, bytes_per_second=rate, error=reported.error)

    def _measured(self, seen: _Seen, at: TopicPartition, broker: BrokerId) -> ReplicaProgress:
        """The progress of one receiving replica, from sizes, and from offsets where brokers report them."""
        state, replica = seen.states[at], Replica(broker, at.topic, at.partition)
        whole = _size(seen.directories, at, state.leader)
        if whole is None:
            return ReplicaProgress(broker, error=f"leader {state.leader} does not report the size of its log")
        lag = NONE if broker in state.isr else seen.lags.get(replica)
        held = min(whole, _size(seen.directories, at, broker) or 0) if lag is None else whole - lag.bytes_of(whole)
        return self._rated(seen.now, replica, held, whole)

    def _rated(self, now: float, replica: Replica, held: int, whole: int) -> ReplicaProgress:
        rate, closing = self._rates(now, replica, held, whole)
        left = whole - held
        remaining = 0.0 if not left else left / closing if closing is not None and closing > 0 else None
        return ReplicaProgress(replica.broker, held, whole, rate, remaining)

    def _rates(self, now: float, replica: Replica, held: int, whole: int) -> tuple[float | None, float | None]:
        """How fast it copies, and how fast its gap closes, which new data slows.

        Averaged over the last half minute, so that a pause of one fetch is no standstill.
        """
        samples = self._samples.setdefault(replica, deque())
        samples.append((now, held, whole))
        while now - samples[0][0] > _WINDOW_S:
            samples.popleft()
        since, first, first_whole = samples[0]
        passed = now - since
        if passed <= 0:
            return None, None
        closed = (first_whole - first) - (whole - held)
        copied = closed + max(0, whole - first_whole)  # a leader that deletes segments takes nothing back
        return max(0.0, copied / passed), closed / passed if passed >= WINDOW_S else None

    def _follow(self, now: float, moving: Collection[Moving]) -> None:
        for one in moving:
            if self._is_measured_otherwise(one):
                self._closing.finish(one.at, is_complete=False)  # the difference between two ways is no progress
            for replica in one.received:
                if replica.total_bytes is not None:
                    self._closing.see(one.at, replica.broker, (replica.copied_bytes or 0, replica.total_bytes), now)
        self._closing.mark(now, len(moving) / _MOVES_A_SECOND)

    def _is_measured_otherwise(self, one: Moving) -> bool:
        """Whether a gap follows from offsets now and did not before, or the reverse; being in sync is neither."""
        is_other = False
        for broker in one.move.adding:
            replica, lag = Replica(broker, one.at.topic, one.at.partition), one.lags.get(broker)
            if lag == NONE:
                continue
            is_exact = lag is not None
            is_other |= self._is_exact.get(replica, is_exact) != is_exact
            self._is_exact[replica] = is_exact
        return is_other

    def _summed(self, moving: Collection[Moving], settling: int) -> Snapshot:
        for one in moving:
            # The receiver may have answered before the leader, which alone knows the total.
            known = [(r.copied_bytes or 0, r.total_bytes) for r in one.received if r.total_bytes is not None]
            self._sizes[one.at] = sum(total for _, total in known)
            self._copied[one.at] = sum(min(held, total) for held, total in known)
        for at, ended in self._ended.items():
            if ended.is_complete and at in self._sizes:
                self._copied[at] = self._sizes[at]
        rates = [r.bytes_per_second for one in moving for r in one.received if r.bytes_per_second is not None]
        rate = sum(rates) if rates else None
        receiving = self._closing.receiving(_throttled_by_ours(moving))
        has_trouble = any(r.error for one in moving for r in one.received)
        remaining = None if has_trouble or (moving and not receiving) else longest(receiving)
        copied, total = sum(self._copied.values()), sum(self._sizes.values())
        return Snapshot(
            tuple(moving),
            tuple(self._ended.values()),
            settling,
            copied,
            total,
            rate,
            remaining,
            tuple(receiving.values()),
        )


def _throttled_by_ours(moving: Iterable[Moving]) -> set[BrokerId]:
    """The brokers whose throttle, if any, is taken to be our controller's: it leads, for it reports progress.

    Replicas in sync take nothing from that. A throttle that Kafka's tool has set beside it counts them, and there the
    time left is too short.
    """
    return {broker for one in moving if one.move.progress is not None for broker in one.move.adding}


def _size(directories: Mapping[Replica, Directories], at: TopicPartition, broker: BrokerId) -> int | None:
    found = directories.get(Replica(broker, at.topic, at.partition))
    return found.size_bytes if found is not None else None
