"""How far is every move, which request does it belong to, and what does it wait for?

Queries brokers for replica sizes, but only while some must catch up, one request per broker, and less often the more
there is to query. Publishes results in the requests' statuses, but rarely: ZooKeeper is no place for figures that
change all the time.

Source: KIP-179.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, field, structs

from controller.core.messages.effects import DescribeLogDirs
from controller.core.messages.events import LogDirsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.progress.accounting import Course
from controller.core.progress.blockers import Outages, Seen, waits_for
from controller.core.progress.ledger import RequestLedger
from controller.core.progress.list_reassignments import in_order
from controller.core.progress.transfers import STALE_AFTER_S, Transfers
from controller.core.scheduling.log_dir_questions import REPLICAS_A_SECOND
from controller.core.stage import Stage, stage
from controller.core.state.brokers import NO_BROKERS
from controller.core.state.changes import Changes
from controller.core.state.statuses import Statuses
from controller.core.state.topics import Partition
from controller.core.state.view import Cluster
from zk_layout.ids import NO_LEADER, BrokerId, Replicas, TopicPartition
from zk_layout.znodes.reassignment_status import MoveProgress, ReplicaProgress

PACE_S = 1.0
SLOWEST_PACE_S = 60.0
MOVES_A_SECOND = 1_000
GIVEN_UP_AFTER_S = 60.0


class _Standing(Struct, frozen=True):
    """The stage of a move, since when, and its target: another target makes it another move.

    Shape:
        `course` is what it was before; `is_since_known` is false if this stage may have begun before this term.
    """

    stage: Stage
    since_ms: int
    target: Replicas
    receivers: int
    course: Course
    is_since_known: bool

    def at_end(self, now_ms: int) -> Course:
        """How it went, if this stage ends now."""
        if not self.is_since_known:
            return self.course
        spent_ms = {**self.course.spent_ms, self.stage: now_ms - self.since_ms}
        return Course(self.course.began_ms, spent_ms)


class _Seen(Struct):
    """The moves left to examine, and results so far: the brokers to query, and figures by broker."""

    left: Iterator[TopicPartition]
    wanted: dict[BrokerId, list[TopicPartition]] = field(default_factory=dict)
    remaining: dict[str, float] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)


class _Heard(Struct):
    """A broker's answer, and the queried partitions whose sizes are still to be recorded."""

    described: LogDirsDescribed
    left: Iterator[TopicPartition]


class Progress:
    """Measurements of one term; losing them costs some seconds of measuring."""

    def __init__(self, cluster: Cluster, ledger: RequestLedger, clock_zero_ms: int, budget: int = 1_500) -> None:
        """Begin without moves. `budget` is how many reported replica sizes a turn records."""
        self._cluster = cluster
        self._ledger = ledger
        ledger.course_of = self._course
        self._clock_zero_ms = clock_zero_ms
        self._transfers = Transfers()
        self._outages = Outages()
        self._stages: dict[TopicPartition, _Standing] = {}
        self._earlier: dict[TopicPartition, tuple[str, int]] = {}
        self._asked: dict[BrokerId, tuple[float, tuple[TopicPartition, ...]]] = {}
        self._shown: set[str] = set()
        self._seen: _Seen | None = None
        self._heard: deque[_Heard] = deque()
        self._budget = self._room = budget
        self.pace_s = PACE_S

    def at_ms(self, now: float) -> int:
        """The Unix time in milliseconds at a time of this machine's clock."""
        return self._clock_zero_ms + round(now * 1000)

    @property
    def is_anything_moving(self) -> bool:
        """Whether any partition moves."""
        return bool(self._stages)

    # ---- what happens ---------------------------------------------------------------------------------------

    def begin(self, statuses: Statuses, now: float) -> None:
        """Begin a term; the statuses of earlier terms show since when each move has been in its stage."""
        self._outages.began = now
        for kept in statuses.kept.values():
            for topic in kept.status.topics if kept.status is not None else ():
                for partition in topic.partitions:
                    if partition.progress is not None:
                        at = TopicPartition(topic.topic, partition.partition)
                        self._earlier[at] = (partition.progress.stage, partition.progress.since_ms)

    def see(self, at: TopicPartition, held: Partition | None, now: float, former: Replicas = ()) -> None:
        """Take in a partition that changed, or is gone; `former` is where it was aimed before."""
        now_ms = self.at_ms(now)
        copied, course = None, None
        before = self._stages.get(at)
        if held is None or not held.assignment.is_moving:
            if before is not None:
                course = self._at_end(before, now_ms)
                largest = self._transfers.largest(at)
                copied = None if largest is None else largest * before.receivers
                self._transfers.forget(at)
                del self._stages[at]
        else:
            where, target = stage(held.assignment, held.state), held.assignment.target
            if before is None or (before.stage, before.target) != (where, target):
                earlier = self._earlier.pop(at, None)
                is_earlier = earlier is not None and earlier[0] == where.value
                since_ms = earlier[1] if earlier is not None and is_earlier else now_ms
                is_known = is_earlier or before is not None or bool(former)
                so_far = Course(now_ms if former else None)
                if before is not None:
                    course = self._at_end(before, now_ms)
                    so_far = course if course is not None and before.target == target else Course(now_ms)
                    if (before.stage, where) == (Stage.CATCHING_UP, Stage.LETTING_GO):
                        so_far = Course(so_far.began_ms, {**so_far.spent_ms, Stage.HANDING_OVER: 0})
                self._stages[at] = _Standing(where, since_ms, target, len(held.assignment.adding), so_far, is_known)
                self._ledger.note_news(at)
        self._ledger.see(at, held, now_ms, copied, former, course)

    def _at_end(self, standing: _Standing, now_ms: int) -> Course | None:
        """How a move went whose stage ends now; None where no log of moves is kept."""
        return standing.at_end(now_ms) if self._ledger.is_accounting else None

    def _course(self, at: TopicPartition, target: Replicas, now_ms: int) -> Course | None:
        """How the move of a partition to these replicas went, if it is under way and is over now."""
        known = self._stages.get(at)
        return known.at_end(now_ms) if known is not None and known.target == target else None

    def note_brokers(self, changes: Changes, now: float) -> None:
        """Take in brokers that came or went."""
        for broker in changes.brokers:
            self._outages.silent_since.pop(broker, None)
            if broker not in self._cluster.brokers:
                self._outages.offline_since[broker] = now
                self._asked.pop(broker, None)
            else:
                self._outages.offline_since.pop(broker, None)

    def hear(self, event: LogDirsDescribed, now: float) -> None:
        """Take in a broker's replica sizes, or its failure to answer."""
        asked = self._asked.pop(event.broker, None)
        held = self._cluster.brokers.get(event.broker)
        if asked is None or held is None or held.epoch != event.broker_epoch:
            return
        if event.error is not None:
            self._outages.silent_since.setdefault(event.broker, (asked[0], event.error))
            return
        self._outages.silent_since.pop(event.broker, None)
        self._heard.append(_Heard(event, iter(asked[1])))
        self._take_in(now)

    def take_in(self, now: float) -> bool:
        """Continue to record reported sizes; return whether some are left for the next turn."""
        self._take_in(now)
        self._room = self._budget
        return bool(self._heard)

    def _take_in(self, now: float) -> None:
        while self._heard and self._room > 0:
            heard, taken = self._heard[0].described, tuple(islice(self._heard[0].left, self._room))
            self._room -= len(taken)
            self._transfers.hear(heard.broker, taken, heard.sizes)
            for at in taken:
                self._sample(at, heard.broker, now)
            if self._room > 0:
                self._heard.popleft()

    def _sample(self, at: TopicPartition, broker: BrokerId, now: float) -> None:
        held = self._cluster.partition(at)
        if at not in self._stages or held is None or held.state is None:
            self._transfers.forget(at)
        elif broker in held.assignment.adding:
            self._transfers.sample(at, held.state.leader, broker, now)

    # ---- queries to brokers ---------------------------------------------------------------------------------

    def look(self, out: Outbox, most: int) -> bool:
        """Examine up to `most` moves. After the last one, query brokers and publish progress; return True then."""
        seen = self._seen = self._seen or _Seen(in_order(self._cluster.moving))
        for at in islice(seen.left, most):
            most -= 1
            self._look_at(at, seen, out.now)
        if not most:
            return False
        self._seen = None
        self._inquire(seen.wanted, out)
        self._measure(seen, out)
        for asked in self._ledger.open.values():
            asked.closing.mark(out.now, self.pace_s)
        return True

    @property
    def is_looking(self) -> bool:
        """Whether there are moves left to examine."""
        return self._seen is not None

    def _look_at(self, at: TopicPartition, seen: _Seen, now: float) -> None:
        held = self._cluster.partition(at)
        if held is None or held.state is None:
            return
        receiving = _receiving(held)
        if receiving and held.state.leader != NO_LEADER:
            for broker in (held.state.leader, *receiving):
                seen.wanted.setdefault(broker, []).append(at)
        requests = self._ledger.requests_of(at)
        for replica in self.replicas(at, now) if at in self._stages else ():
            if replica.copied_bytes is not None and replica.total_bytes is not None:
                for asked in requests:
                    asked.closing.see(at, replica.broker, (replica.copied_bytes, replica.total_bytes), now)
            name = str(replica.broker)
            behind = (replica.total_bytes or 0) - (replica.copied_bytes or 0)
            seen.remaining[name] = seen.remaining.get(name, 0.0) + max(0, behind)
            seen.rates[name] = seen.rates.get(name, 0.0) + (replica.bytes_per_second or 0.0)

    def _inquire(self, wanted: dict[BrokerId, list[TopicPartition]], out: Outbox) -> None:
        """Query both ends of every transfer; skips brokers that have not answered yet."""
        now = out.now
        hosted = max((self._cluster.replica_counts.get(broker, 0) for broker in wanted), default=0)
        pace_s = PACE_S + len(self._stages) / MOVES_A_SECOND + hosted / REPLICAS_A_SECOND
        self.pace_s = min(pace_s, SLOWEST_PACE_S)
        self._transfers.stale_after_s = STALE_AFTER_S + 3 * self.pace_s
        for broker in sorted(wanted):
            if not self._cluster.is_registered(broker):
                continue
            asked_at = self._asked.get(broker, (-GIVEN_UP_AFTER_S, ()))[0]
            if now - asked_at < max(GIVEN_UP_AFTER_S, self.pace_s) and broker in self._asked:
                continue
            self._asked[broker] = (now, tuple(wanted[broker]))
            held = self._cluster.brokers[broker]
            out.add(DescribeLogDirs(broker, held.epoch, held.registration, tuple(wanted[broker])))

    def _measure(self, seen: _Seen, out: Outbox) -> None:
        """Publish figures by receiving broker; there may be far too many partitions for figures of each."""
        for broker in sorted(self._shown | seen.remaining.keys()):
            out.measured("reassignment_remaining_bytes", seen.remaining.get(broker, 0.0), broker)
            out.measured("reassignment_bytes_per_second", seen.rates.get(broker, 0.0), broker)
        self._shown = set(seen.remaining)
        oldest_ms = min((standing.since_ms for standing in self._stages.values()), default=None)
        age_s = 0.0 if oldest_ms is None else (self.at_ms(out.now) - oldest_ms) / 1000
        out.measured("reassignment_longest_stage_seconds", age_s)
        out.measured("open_reassignment_requests", len(self._ledger.open))

    # ---- what is known --------------------------------------------------------------------------------------

    def of(self, at: TopicPartition, now: float) -> MoveProgress | None:
        """The progress of one partition's move; None if it does not move."""
        known, held = self._stages.get(at), self._cluster.partition(at)
        if known is None or held is None:
            return None
        replicas = self.replicas(at, now)
        closing = {replica.broker: self._transfers.closing(at, replica.broker) for replica in replicas}
        seen = Seen(at, held, self._cluster.confirmed.get(at, NO_BROKERS), replicas, closing)
        reason = waits_for(seen, self._cluster, self._outages, now)
        return MoveProgress(self._ledger.request_of(at), known.stage.value, known.since_ms, reason, replicas)

    def throttled(self) -> set[BrokerId]:
        """The receiving brokers whose throttle is ours: replicas in sync take nothing from it."""
        return self._cluster.throttled_brokers()

    def replicas(self, at: TopicPartition, now: float) -> tuple[ReplicaProgress, ...]:
        """The progress of each receiving replica of one partition."""
        held = self._cluster.partition(at)
        if held is None or held.state is None:
            return ()
        state, made = held.state, []
        for receiver in held.assignment.adding:
            is_in_sync = receiver in state.isr
            replica = self._transfers.progress(at, state.leader, receiver, now, is_in_sync=is_in_sync)
            error = None if is_in_sync else self._error(receiver)
            made.append(replica if error is None else structs.replace(replica, error=error))
        return tuple(made)

    def _error(self, receiver: BrokerId) -> str | None:
        if receiver not in self._cluster.brokers:
            return "the broker is offline"
        silence = self._outages.silent_since.get(receiver)
        return None if silence is None else silence[1]


def _receiving(held: Partition) -> tuple[BrokerId, ...]:
    """The replicas that still copy."""
    state = held.state
    return () if state is None else tuple(r for r in held.assignment.adding if r not in state.isr)
