"""What happened to one partition around one time: who moved it, by which interface, and what did each stage wait for?

Source: ZooKeeper's files alone. They name sessions, which the registrations and the claim of that time turn into
brokers; they do not know a request's client or its principal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory

import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from controller.core.stage import Stage
from controller.core.steps.change import listed
from metrics.replay.audit.audit import findings
from metrics.replay.commands.as_of import as_time, moment, time_ms
from metrics.replay.commands.jobs import Job, check_found, look
from metrics.replay.commands.report import lasted
from metrics.replay.engine import bulk
from metrics.replay.engine.engines import Local
from metrics.replay.files.known import NotKnown, check_known
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import History, state_at, survey
from metrics.replay.partitions.moves import Happened, Move, moves_of
from metrics.replay.partitions.partition_fold import OF_EVENTS, OF_STATES, in_order, rows_of
from metrics.replay.partitions.sightings import COLUMNS, KINDS, sightings_of
from metrics.replay.partitions.stalls import why_stalled
from metrics.replay.partitions.terms import Terms
from zk_layout.facts import Fact
from zk_layout.ids import PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.storage.cluster_facts import facts_of
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim

_DOORS = {
    "api": "asked of the controller by a request (AlterPartitionReassignments)",
    "legacy": "asked by /admin/reassign_partitions",
    "znode": "asked by its znode below /admin/reassignments",
    "by hand": "written into the topic's znode, past the controller",
    "unknown": "under way before the history begins",
}
_MOVED = ("assignment", "legacy_move", "znode_move", "state")


class Who(Struct, frozen=True):
    """The writer of a znode.

    Shape:
        `broker` and `host` are None if the session was another ZooKeeper client's, or its owner is unknown.
    """

    session: int
    broker: int | None = None
    host: str | None = None
    is_controller: bool = False

    def __str__(self) -> str:
        """For a person."""
        if self.broker is None:
            return f"a client of ZooKeeper that is no broker (session {self.session:#x})"
        at = f" at {self.host}" if self.host else ""
        return f"{'controller' if self.is_controller else 'broker'} {self.broker}{at}"


class StageReport(Struct, frozen=True):
    """How long a stage of a move took, and why."""

    stage: str
    lasted_ms: int
    why: str


class MoveReport(Struct, frozen=True):
    """One move: who requested and who wrote it, by which interface, its stages, and problems meanwhile."""

    from_replicas: Replicas
    to_replicas: Replicas
    origin: str
    asked_by: Who | None
    written_by: Who
    controller_epoch: int
    started_at: str
    ended_at: str | None
    lasted_ms: int
    outcome: str
    stages: tuple[StageReport, ...]
    meanwhile: tuple[str, ...]


class Story(Struct, frozen=True):
    """A partition at a time, why it was written last, and the move it was in, or the last one before.

    Shape:
        `created_at` is when its topic was created under a name that another one had had before, `deleted_at` when it
        was deleted. The moves of a former topic are not its own. `damage` says what the files lack.
    """

    partition: str
    at: str
    leader: int | None
    isr: Replicas | None
    replicas: Replicas | None
    last_at: str | None
    last_why: str | None
    move: MoveReport | None
    created_at: str | None = None
    deleted_at: str | None = None
    damage: tuple[str, ...] = ()

    @property
    def lines(self) -> Iterator[str]:
        """For a person."""
        yield f"{self.partition} at {self.at}: leader {self.leader}, ISR {_listed(self.isr)}, replicas " + (
            _listed(self.replicas)
        )
        if self.last_why is not None:
            yield f"last written at {self.last_at}: {self.last_why}"
        if self.deleted_at is not None:
            yield f"deleted at {self.deleted_at}"
        if self.created_at is not None:
            yield f"created at {self.created_at}; a topic of this name had been deleted before"
        move = self.move
        if move is None:
            yield "no move had begun"
            return
        until = f"to {move.ended_at}" if move.ended_at else "still under way"
        yield (
            f"moved from {listed(move.from_replicas)} to {listed(move.to_replicas)}: {move.started_at} {until}, "
            f"{lasted(move.lasted_ms)}, {move.outcome}"
        )
        by = f" by {move.asked_by}" if move.asked_by else ""
        yield f"{_DOORS[move.origin]}{by}; written by {move.written_by}, controller epoch {move.controller_epoch}"
        yield from (f"{stage.stage} took {lasted(stage.lasted_ms)}: {stage.why}" for stage in move.stages)
        yield from (f"meanwhile {what}" for what in move.meanwhile)


def story(paths: Sequence[str], partition: str, when: str, chroot: str = "") -> Story:
    """What happened to a partition, written as `orders-0`, at a time or zxid or before.

    Raises:
        NotKnown: the files do not show that time.
        ValueError: there was no such partition.
    """
    at = _named(partition)
    history = survey(stored_files(paths))
    zxid = moment(history, when)
    shown = [file.zxid for file in history.snapshots]
    check_known(history.pieces, shown, max([z for z in shown if z <= zxid and z < history.first_zxid], default=0), zxid)
    with TemporaryDirectory(prefix="replay-ask-") as out:
        job = Job(tuple(paths), out, chroot)
        engine = Local()
        looked = look(job, engine.cores)
        bulk.run(engine, looked.splits, looked.last_writes, out, chroot)
        bulk.join_edges(engine, out)
        events = _history(out, at)
        if not events:
            check_found(out, chroot)
        seen = bulk.written(out, "events").to_table(columns=[*COLUMNS], filter=pc.field("kind").isin(KINDS))
    terms = Terms(sightings_of(seen.to_pylist()))
    until = [event for event in events if event.zxid <= zxid]
    if not until:
        raise ValueError(f"{partition} is not known at {when}")
    standing = [event for event in until if event.kind == "state"][-1:]
    is_gone = bool(standing) and standing[0] is until[-1] and standing[0].isr is None
    placed = [] if is_gone else [event for event in until if event.kind == "assignment"][-1:]
    found = [f for f in findings(at.topic, at.partition, events, terms) if f.zxid <= zxid][-1:]
    begun = [event for event in until if event.kind == "assignment" and event.op == "create"][-1:]
    born = begun[0].zxid if begun else 0
    moves = [move for move in moves_of(events) if born <= move.started_zxid <= zxid][-1:]
    is_second = any(event.zxid < born for event in until)
    return Story(
        str(at), when if _is_time(when) else f"zxid {zxid:#x}",
        *((standing[0].leader, standing[0].isr) if standing else (None, None)),
        placed[0].replicas if placed else None,
        as_time(found[0].time_ms) if found else None, found[0].why if found else None,
        _report(moves[0], events, terms, history, chroot) if moves else None,
        as_time(begun[0].time_ms) if is_second else None, as_time(until[-1].time_ms) if is_gone else None,
        tuple(dict.fromkeys(map(str, looked.damage))),
    )  # fmt: skip


def _named(partition: str) -> TopicPartition:
    match = re.fullmatch(r"(.+)-(\d+)", partition)
    if match is None:
        raise ValueError(f"{partition} is no partition: write one as orders-0")
    return TopicPartition(TopicName(match[1]), PartitionId(int(match[2])))


def _is_time(when: str) -> bool:
    try:
        time_ms(when)
    except ValueError:
        return False
    return True


def _history(out: str, at: TopicPartition) -> list[Happened]:
    is_ours = (pc.field("topic") == at.topic) & (pc.field("partition") == at.partition)
    events = bulk.written(out, "events").to_table(
        columns=[*OF_EVENTS], filter=is_ours & pc.field("kind").isin([*_MOVED])
    )
    states = bulk.written(out, "partitions").to_table(
        columns=[*OF_STATES], filter=is_ours & (pc.field("what") == "state")
    )
    states = states.rename_columns([OF_STATES[name] for name in states.column_names])
    return [event for _, _, event in rows_of(in_order([events, states]).to_batches())]


def _report(move: Move, events: Sequence[Happened], terms: Terms, history: History, chroot: str) -> MoveReport:
    try:
        known = list(facts_of(state_at(history, [], move.started_zxid), chroot))
    except NotKnown:  # it was under way before the history begins
        known = []
    end_ms = history.pieces[-1].to_ms if move.ended_ms is None else move.ended_ms
    return MoveReport(
        move.from_replicas, move.assignment.target, move.origin, _asked_by(move, events, known),
        _who(move.session, known), terms.at(move.started_zxid).epoch, as_time(move.started_ms),
        None if move.ended_ms is None else as_time(move.ended_ms), end_ms - move.started_ms, move.outcome,
        tuple(_stages(move, end_ms)), tuple(_meanwhile(move, end_ms, terms)),
    )  # fmt: skip


def _asked_by(move: Move, events: Sequence[Happened], known: Sequence[Fact]) -> Who | None:
    """The writer of the znode that requested the move."""
    kind = {"legacy": "legacy_move", "znode": "znode_move"}.get(move.origin)
    asked = [e for e in events if e.kind == kind and e.zxid <= move.started_zxid and e.replicas]
    return _who(asked[-1].session, known) if asked else None


def _who(session: int, known: Sequence[Fact]) -> Who:
    """The owner of a session, as the znodes of that time show it."""
    brokers: dict[int, tuple[int, str | None]] = {}
    hosts: dict[int, str | None] = {}
    leads: int | None = None
    for fact in known:
        match fact:
            case Fact(address=BrokerAddress(broker=broker), value=Registration() as registered, stat=stat) if stat:
                hosts[broker] = str(registered.endpoints[0]) if registered.endpoints else None
                brokers[int(stat.owner)] = (broker, hosts[broker])
            case Fact(address=ControllerAddress(), value=ControllerClaim() as claim, stat=stat) if stat:
                leads = claim.broker if stat.owner == session else None
    if leads is not None:
        return Who(session, leads, hosts.get(leads), is_controller=True)
    return Who(session, *brokers.get(session, (None, None)))


def _stages(move: Move, end_ms: int) -> Iterator[StageReport]:
    for stage, why in (
        (Stage.CATCHING_UP, _caught_up(move)),
        (Stage.HANDING_OVER, _handed_over(move)),
        (Stage.LETTING_GO, f"until the topic's znode no longer named {listed(move.assignment.removing)}"),
    ):
        spent = move.stage_ms.get(stage.value)
        if move.ended_ms is None and move.standing is not None and move.standing.stage == stage.value:
            spent = end_ms - move.started_ms - sum(move.stage_ms.values())
        if spent:
            yield StageReport(stage.value, spent, why)


def _caught_up(move: Move) -> str:
    """When each replica of the target was in sync, the last of them last."""
    first = {r: m.time_ms for m in reversed(move.milestones) for r in m.isr if r in move.assignment.adding}
    joined = sorted(first, key=lambda r: (first[r], r))
    parts = [f"{r} was in sync after {lasted(first[r] - move.started_ms)}" for r in joined]
    absent = tuple(r for r in move.assignment.adding if r not in first)
    return ", ".join([*parts, *(f"{r} never was in sync" for r in absent)]) or "the target was in sync"


def _handed_over(move: Move) -> str:
    """The leader's and ISR's changes once the target was in sync."""
    since = [m for m in move.milestones if move.in_sync_ms is not None and m.time_ms >= move.in_sync_ms]
    if not since:
        return "the leader and the ISR were still to become the target's"
    leaders = list(dict.fromkeys(m.leader for m in since))
    return f"leader {' → '.join(map(str, leaders))}, ISR {listed(since[-1].isr)}"


def _meanwhile(move: Move, end_ms: int, terms: Terms) -> Iterator[str]:
    """Brokers that were down during the move, and what it waited for in its longest pause."""
    last = 2**63 - 1 if move.ended_zxid is None else move.ended_zxid
    seen = terms.between(move.started_zxid, last)
    begins = [max(term.time_ms, move.started_ms) for term in seen]
    spans = [end - begin for begin, end in zip(begins, [*begins[1:], end_ms], strict=True)]
    for broker in sorted({*move.assignment.target, *move.from_replicas}):
        away = sum(span for term, span in zip(seen, spans, strict=True) if broker not in term.brokers)
        if away > 0:
            yield f"broker {broker} was not there for {lasted(away)}"
    vacant = sum(span for term, span in zip(seen, spans, strict=True) if term.controller is None)
    if vacant > 0:
        yield f"no controller led for {lasted(vacant)}"
    stalled = why_stalled(move, end_ms, terms)
    if stalled is not None:
        yield f"nothing was written for {lasted(move.pause(end_ms).duration_ms)}: {stalled}"


def _listed(replicas: Replicas | None) -> str:
    return "unknown" if replicas is None else listed(replicas)
