"""What became of each reassignment of one partition: its stages, its milestones, its end?

One partition's events are folded in order. A move starts when the topic znode names adding or removing replicas,
and ends when it no longer does. Stages are those of the controller itself.

Source: KIP-455; controller.core.stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from controller.core.stage import Stage, stage
from metrics.replay.events.kafka_events import GONE
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

STALLED_MS = 5 * 60_000


class Happened(NamedTuple):
    """One event of a partition, as the table `events` has it."""

    zxid: int
    time_ms: int
    session: int
    op: str
    kind: str
    leader: int | None
    leader_epoch: int | None
    controller_epoch: int | None
    isr: Replicas | None
    replicas: Replicas | None
    adding: Replicas | None
    removing: Replicas | None
    version: int | None
    fence: int | None
    is_first: bool | None = None


class Milestone(NamedTuple):
    """The leader and the ISR at one moment of a move."""

    time_ms: int
    zxid: int
    leader: int
    isr: Replicas


class Pause(NamedTuple):
    """A time without writes about a move; `missing` are the target's replicas that were not in sync.

    `until_zxid` is None where the log ended first.
    """

    duration_ms: int
    since_zxid: int
    until_zxid: int | None
    stage: str
    missing: Replicas


class Standing(NamedTuple):
    """The state of a move after the last write about it."""

    time_ms: int
    zxid: int
    stage: str
    missing: Replicas


class Move(Struct):
    """One reassignment of one partition.

    Shape:
        `outcome` is finished, cancelled, superseded, deleted with the topic, or unfinished; `origin` is api, legacy
        (`/admin/reassign_partitions`), znode (the partition's own, below `/admin/reassignments`), by hand (another
        client than the controller wrote the topic znode), or unknown (it began before the log).
    """

    origin: str
    started_ms: int
    started_zxid: int
    session: int
    before: Assignment
    assignment: Assignment
    outcome: str = "unfinished"
    ended_ms: int | None = None
    ended_zxid: int | None = None
    stage_ms: dict[str, int] = {}
    milestones: list[Milestone] = []
    controller_epochs: list[int] = []
    in_sync_ms: int | None = None
    state_writes: int = 0
    topic_writes: int = 1
    longest: Pause | None = None
    standing: Standing | None = None

    @property
    def from_replicas(self) -> Replicas:
        """The replicas before the move."""
        return self.before.original if self.before.is_moving else self.before.replicas

    @property
    def longest_pause_ms(self) -> int:
        """The longest pause that ended."""
        return 0 if self.longest is None else self.longest.duration_ms

    def pause(self, now_ms: int) -> Pause:
        """The longest pause; at `now_ms` the log ends."""
        last = self.standing or Standing(self.started_ms, self.started_zxid, Stage.CATCHING_UP.value, ())
        still = Pause(now_ms - last.time_ms if self.ended_ms is None else 0, last.zxid, None, last.stage, last.missing)
        return still if self.longest is None or still.duration_ms > self.longest.duration_ms else self.longest

    def is_stalled(self, now_ms: int) -> bool:
        """Whether it had an unusually long pause at any time until `now_ms`."""
        return self.pause(now_ms).duration_ms > STALLED_MS


class PartitionMoves:
    """Fold one partition's events; `moves` grows."""

    def __init__(self) -> None:
        self.moves: list[Move] = []
        self.assignment: Assignment | None = None
        self.state: PartitionState | None = None
        self._open: Move | None = None
        self._stage = Stage.SETTLED
        self._stage_since_ms = 0
        self._legacy_target: Replicas | None = None
        self._znode_target: Replicas | None = None
        self._znode_session = 0

    def add(self, event: Happened) -> None:
        """Take the next event."""
        match event.kind:
            case "state" if event.isr is None:
                if event.op not in GONE:
                    return  # emptied by hand: no controller can read it, but the partition is there
                self._gone(event)
            case "state":
                self._state(event)
            case "assignment":
                self._assigned(event)
            case "legacy_move":
                self._legacy_target = event.replicas or None
            case "znode_move":
                self._znode_target, self._znode_session = event.replicas or None, event.session
            case _:
                return
        if self._open is not None:
            self._open.standing = self._standing(self._open, event)

    def _state(self, event: Happened) -> None:
        self.state = state_of(event)
        move = self._open
        if move is None:
            return
        move.state_writes += 1
        self._resume(move, event)
        move.milestones.append(Milestone(event.time_ms, event.zxid, self.state.leader, self.state.isr))
        epoch = int(self.state.controller_epoch)
        if epoch not in move.controller_epochs:
            move.controller_epochs.append(epoch)
        if move.in_sync_ms is None and set(move.assignment.target) <= set(self.state.isr):
            move.in_sync_ms = event.time_ms
        self._enter(event.time_ms)

    def _assigned(self, event: Happened) -> None:
        now = assignment_of(event)
        before, self.assignment = self.assignment, now
        if now == before:
            return
        if self._open is not None:
            self._open.topic_writes += 1
            self._close(event, now)
        if now is not None and now.is_moving:
            self._start(event, before or Assignment(now.original), now)
        elif now is not None and before is not None and not before.is_moving and event.op == "set":
            self._at_once(event, before, now)

    def _start(self, event: Happened, before: Assignment, now: Assignment) -> None:
        move = Move(
            self._origin(event, now), event.time_ms, event.zxid, event.session, before, now,
            stage_ms={}, milestones=[], controller_epochs=[],
        )  # fmt: skip
        if self.state is not None and set(now.target) <= set(self.state.isr):
            move.in_sync_ms = event.time_ms
        self._open = move
        self.moves.append(move)
        self._stage = stage(now, self.state)
        self._stage_since_ms = event.time_ms

    def _at_once(self, event: Happened, before: Assignment, now: Assignment) -> None:
        """A move that only reorders or removes replicas needs no waiting, and so may be a single write."""
        move = Move(
            self._origin(event, now), event.time_ms, event.zxid, event.session, before, now, "finished",
            event.time_ms, event.zxid, {}, [], [], event.time_ms,
        )  # fmt: skip
        self.moves.append(move)

    def _close(self, event: Happened, now: Assignment | None) -> None:
        move = self._open
        if move is None:
            return
        if now is None:
            outcome = "deleted with the topic"
        elif now.is_moving:
            outcome = "superseded"
        elif now.replicas == move.assignment.target:
            outcome = "finished"
        elif set(now.replicas) == set(move.assignment.original):
            outcome = "cancelled"
        else:
            outcome = "superseded"
        self._end(event, outcome)

    def _gone(self, event: Happened) -> None:
        self.state = None
        if self._open is not None:
            self._end(event, "deleted with the topic")
        self.assignment = None

    def _end(self, event: Happened, outcome: str) -> None:
        move = self._open
        if move is None:
            return
        self._count_stage(move, event.time_ms)
        self._resume(move, event)
        move.outcome, move.ended_ms, move.ended_zxid = outcome, event.time_ms, event.zxid
        self._open = None

    def _enter(self, time_ms: int) -> None:
        move = self._open
        if move is None:
            return
        following = stage(move.assignment, self.state)
        if following is not self._stage:
            self._count_stage(move, time_ms)
            self._stage, self._stage_since_ms = following, time_ms

    def _count_stage(self, move: Move, time_ms: int) -> None:
        name = self._stage.value
        move.stage_ms[name] = move.stage_ms.get(name, 0) + time_ms - self._stage_since_ms

    def _resume(self, move: Move, event: Happened) -> None:
        """End the pause: there is a write again."""
        last = move.standing
        if last is not None and event.time_ms - last.time_ms > move.longest_pause_ms:
            move.longest = Pause(event.time_ms - last.time_ms, last.zxid, event.zxid, last.stage, last.missing)

    def _standing(self, move: Move, event: Happened) -> Standing:
        isr = self.state.isr if self.state is not None else ()
        missing = tuple(r for r in move.assignment.target if r not in isr)
        return Standing(event.time_ms, event.zxid, self._stage.value, missing)

    def _origin(self, event: Happened, now: Assignment) -> str:
        if self._legacy_target is not None and self._legacy_target == now.target:
            self._legacy_target = None
            return "legacy"
        if event.op == "known":
            return "unknown"
        # The controller itself shows every move there; only another client's znode is a request.
        if self._znode_target == now.target and self._znode_session != event.session:
            return "znode"
        return "api" if event.fence is not None else "by hand"


def moves_of(events: Iterable[Happened]) -> list[Move]:
    """The moves of one partition, oldest first."""
    fold = PartitionMoves()
    for event in events:
        fold.add(event)
    return fold.moves


def state_of(event: Happened) -> PartitionState:
    """The state that an event wrote."""
    return PartitionState(
        BrokerId(event.leader or 0),
        LeaderEpoch(event.leader_epoch or 0),
        ControllerEpoch(event.controller_epoch or 0),
        event.isr or (),
    )


def assignment_of(event: Happened) -> Assignment | None:
    """The assignment that an event wrote; None where the partition left the topic."""
    if not event.replicas:
        return None
    return Assignment(event.replicas, event.adding or (), event.removing or ())


def grouped(events: Iterable[tuple[str, int, Happened]]) -> Iterator[tuple[str, int, list[Happened]]]:
    """The events of each partition, from rows sorted by topic, partition and zxid."""
    at: tuple[str, int] | None = None
    held: list[Happened] = []
    for topic, partition, event in events:
        if (topic, partition) != at:
            if at is not None:
                yield (*at, held)
            at, held = (topic, partition), []
        held.append(event)
    if at is not None:
        yield (*at, held)
