"""Was each write of a partition right, and which rule of the controller explains it?

Each write is compared with what this project's own rules would have decided in the same situation. Kafka's
controller reaches the same ends by more writes, and its extra ones are named; what neither explains is listed,
and what breaks an invariant is a violation.

Source: KIP-455; Kafka's KafkaController.onPartitionReassignment, PartitionStateMachine, ReplicaStateMachine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from controller.core.cluster import Cluster, TopicView
from controller.core.rules import election, reassignment
from controller.core.rules.change import Case, Change, listed
from controller.core.stage import Stage, stage, toward
from metrics.replay.moves import Happened, assignment_of, state_of
from metrics.replay.reigns import Reign, Reigns
from zk_layout.ids import NO_LEADER, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

EXPLAINED, KAFKA, LISTED, VIOLATION = "explained", "kafka's own way", "listed", "violation"


class Finding(Struct, frozen=True):
    """What the audit says of one write.

    Shape:
        `verdict` is explained (our rules would write the same, or the cause is on record), kafka's own way (a
        write that ours would not need), listed (nothing explains it) or violation. `rule` names what explains it;
        `ours` is what our rules would have done, empty where that is the same.
    """

    zxid: int
    time_ms: int
    what: str
    verdict: str
    rule: str
    why: str
    ours: str = ""


Judgement = tuple[str, str, str]  # verdict, rule, why


class PartitionAudit:
    """Judge one partition's writes in order."""

    def __init__(self, topic: str, partition: int, reigns: Reigns) -> None:
        self._at = TopicPartition(TopicName(topic), PartitionId(partition))
        self._view = TopicView(self._at.topic)
        self._reigns = reigns
        self._assignment: Assignment | None = None
        self._state: PartitionState | None = None
        self._version = -1
        self._legacy: Replicas | None = None

    def add(self, event: Happened) -> Finding | None:
        """Judge the next event; None for what is no write of the partition, or only shows what was known."""
        match event.kind:
            case "state" if event.isr is None:
                self._state, self._assignment, self._version = None, None, -1
                return self._finding(event, "state", (EXPLAINED, "deletion", f"{self._at} was deleted"))
            case "state":
                return self._judge_state(event)
            case "assignment":
                return self._judge_assignment(event)
            case "legacy_move":
                self._legacy = event.replicas
        return None

    # ---- the state znode ------------------------------------------------------------------------------------

    def _judge_state(self, event: Happened) -> Finding | None:
        now, before = state_of(event), self._state
        if event.op == "known" or (before is None and event.op == "set"):
            self._take(now, event)
            return None if event.op == "known" else self._first_sight(event, "state")
        position = self._reigns.position(event.zxid)
        cluster, reign = self._reigns.cluster(position), self._reigns.at(event.zxid)
        ours = self._ours(cluster)
        broken = self._broken(before, now, event, reign)
        if broken:
            judged: Judgement = (VIOLATION, "invariant", broken)
        elif before is None:
            judged = self._created(now, cluster)
        elif now.leader_epoch == before.leader_epoch:
            judged = self._isr_changed(before, now, cluster)
        elif ours is not None and ours.state is not None and _same(ours.state, now):
            judged = (EXPLAINED, "reassignment" if self._is_moving else "election", ours.why)
        else:
            judged = self._as_kafka(before, now, event, cluster)
        self._take(now, event)
        is_ours = judged[0] == EXPLAINED or ours is None
        return self._finding(event, "state", judged, "" if is_ours or ours is None else ours.why)

    def _broken(self, before: PartitionState | None, now: PartitionState, event: Happened, reign: Reign) -> str:
        if now.leader != NO_LEADER and now.leader not in now.isr:
            return f"leader {now.leader} is not in the ISR {listed(now.isr)}"
        if now.controller_epoch > reign.epoch > 0:
            return f"controller epoch {now.controller_epoch} is not yet in force, {reign.epoch} is"
        if before is None:
            return ""
        if event.version is not None and self._version >= 0 and event.version != self._version + 1:
            return f"version {event.version} follows version {self._version}"
        if now.leader_epoch < before.leader_epoch:
            return f"the leader epoch fell from {before.leader_epoch} to {now.leader_epoch}"
        if now.leader != before.leader and now.leader_epoch == before.leader_epoch:
            return f"leader {before.leader} became {now.leader} within leader epoch {now.leader_epoch}"
        if now.controller_epoch < before.controller_epoch:
            return f"the controller epoch fell from {before.controller_epoch} to {now.controller_epoch}"
        return self._foreign(before, now)

    def _foreign(self, before: PartitionState, now: PartitionState) -> str:
        replicas = self._assignment.replicas if self._assignment else ()
        joined = [r for r in now.isr if r not in before.isr]
        strangers = tuple(r for r in joined if r not in replicas)
        if replicas and strangers:
            return f"{listed(strangers)} joined the ISR without being replicas"
        return ""

    def _created(self, now: PartitionState, cluster: Cluster) -> Judgement:
        replicas = self._assignment.replicas if self._assignment else ()
        live = tuple(r for r in replicas if cluster.is_live(r)) or replicas
        if now.leader_epoch == 0 and now.leader == (live or (now.leader,))[0] and set(now.isr) <= set(replicas):
            return EXPLAINED, "creation", f"{self._at} begins with its first live replica {now.leader}"
        return LISTED, "creation", f"{self._at} begins with leader {now.leader}, ISR {listed(now.isr)}"

    def _isr_changed(self, before: PartitionState, now: PartitionState, cluster: Cluster) -> Judgement:
        joined = tuple(r for r in now.isr if r not in before.isr)
        left = tuple(r for r in before.isr if r not in now.isr)
        dead = tuple(r for r in joined if not cluster.is_live(r))
        if dead:
            return LISTED, "isr", f"{listed(dead)} joined the ISR without being live"
        if not joined and not left:
            return KAFKA, "isr", f"leader {now.leader} wrote the ISR {listed(now.isr)} again"
        parts = [f"{listed(joined)} caught up"] if joined else []
        parts += [f"{listed(left)} fell behind"] if left else []
        return EXPLAINED, "isr", f"leader {now.leader} reports: {' and '.join(parts)}"

    def _as_kafka(self, before: PartitionState, now: PartitionState, event: Happened, cluster: Cluster) -> Judgement:
        raised = now.leader_epoch - before.leader_epoch
        if raised > 1:
            return LISTED, "epoch", f"the leader epoch rose by {raised} at once"
        if now.leader != before.leader:
            return self._led_otherwise(before, now, event, cluster)
        if now.isr == before.isr:
            return self._epoch_only(now)
        left = tuple(r for r in before.isr if r not in now.isr)
        removing = self._assignment.removing if self._assignment else ()
        if left and set(left) <= set(removing):
            return KAFKA, "reassignment", f"leaving replica {listed(left)} was taken out of the ISR"
        if left and not any(cluster.is_live(r) for r in left):
            return EXPLAINED, "election", f"{listed(left)} left the ISR: offline"
        if left and any(self._reigns.is_restarting(r, event.zxid) for r in left):
            return EXPLAINED, "shutdown", f"{listed(left)} left the ISR: shutting down"
        return LISTED, "isr", f"the controller changed the ISR {listed(before.isr)} to {listed(now.isr)}"

    def _epoch_only(self, now: PartitionState) -> Judgement:
        if self._assignment is None or not self._is_moving:
            return KAFKA, "epoch", f"leader {now.leader} was told again, with a new epoch"
        where = stage(self._assignment, now)
        if where is Stage.CATCHING_UP:
            replicas = listed(self._assignment.replicas)
            return EXPLAINED, "reassignment", f"leader {now.leader} must hear of the replicas {replicas}"
        return KAFKA, "reassignment", f"the target is in sync; leader {now.leader} is told of it alone"

    def _led_otherwise(
        self, before: PartitionState, now: PartitionState, event: Happened, cluster: Cluster
    ) -> Judgement:
        replicas = self._assignment.replicas if self._assignment else ()
        if now.leader == NO_LEADER:
            verdict = LISTED if any(cluster.is_live(r) for r in before.isr) else EXPLAINED
            return verdict, "election", f"leader {before.leader} is gone and no in-sync replica is online"
        if now.leader not in before.isr:
            return (
                LISTED,
                "unclean election",
                f"{now.leader} was not in the ISR {listed(before.isr)}: records may be lost",
            )
        if self._assignment and self._is_moving and before.leader not in self._assignment.target:
            return KAFKA, "reassignment", f"leader {before.leader} leaves, {now.leader} takes over before it goes"
        if replicas and now.leader == replicas[0]:
            return EXPLAINED, "preferred", f"{now.leader} is the preferred leader"
        if before.leader == NO_LEADER or not cluster.is_live(before.leader):
            return EXPLAINED, "election", f"leader {before.leader} is offline; {now.leader} is in sync"
        if self._reigns.is_restarting(before.leader, event.zxid):
            return EXPLAINED, "shutdown", f"leader {before.leader} is shutting down; {now.leader} is in sync"
        return LISTED, "election", f"{now.leader} took over from {before.leader}, which was live"

    def _ours(self, cluster: Cluster) -> Change | None:
        if self._assignment is None or self._state is None:
            return None
        case = Case(self._at, self._view, self._assignment, self._state, is_patience_over=True)
        for rule in (election.next_step, reassignment.next_step):
            step = rule(case, cluster)
            if isinstance(step, Change):
                return step
        return None

    # ---- the topic znode ------------------------------------------------------------------------------------

    def _judge_assignment(self, event: Happened) -> Finding | None:
        now, before = assignment_of(event), self._assignment
        if now == before:
            return None
        self._assignment = now
        if event.op == "known" or (before is None and event.op == "set"):
            return None if event.op == "known" else self._first_sight(event, "assignment")
        if now is None:
            judged: Judgement = (EXPLAINED, "deletion", f"{self._at} is no longer listed")
        elif before is None:
            judged = (EXPLAINED, "creation", f"{self._at} placed on {listed(now.replicas)}")
        else:
            judged = self._moved(before, now, event)
        return self._finding(event, "assignment", judged)

    def _moved(self, before: Assignment, now: Assignment, event: Happened) -> Judgement:
        name = "reassignment"
        if now.is_moving:
            if now != toward(before, now.target):
                planned = toward(before, now.target)
                return VIOLATION, name, f"a move to {listed(now.target)} should name {planned}, not {now}"
            asked = "by /admin/reassign_partitions" if self._legacy == now.target else "to move"
            word = "redirected" if before.is_moving else "asked"
            return EXPLAINED, name, f"{self._at} was {word} {asked} to {listed(now.target)}"
        if not before.is_moving:
            if set(now.replicas) == set(before.replicas):
                return EXPLAINED, name, f"{self._at} was asked for the order {listed(now.replicas)}"
            return LISTED, name, f"replicas changed from {listed(before.replicas)} without naming the move"
        if now.replicas == before.target:
            return self._completed(before, event)
        if set(now.replicas) == set(before.original):
            return EXPLAINED, name, f"the move of {self._at} was cancelled, back to {listed(now.replicas)}"
        return LISTED, name, f"the move to {listed(before.target)} ended with {listed(now.replicas)}"

    def _completed(self, before: Assignment, event: Happened) -> Judgement:
        target = listed(before.target)
        if self._state is not None and stage(before, self._state) is not Stage.LETTING_GO:
            isr = listed(self._state.isr)
            where = stage(before, self._state).value
            if not set(before.target) <= set(self._state.isr) and before.adding:
                return VIOLATION, "reassignment", f"replicas were let go while {where}: ISR {isr}, target {target}"
            return KAFKA, "reassignment", f"{self._at} was called moved to {target} while {where}: ISR {isr}"
        del event
        return EXPLAINED, "reassignment", f"{self._at} has moved to {target}"

    # ---- both -----------------------------------------------------------------------------------------------

    @property
    def _is_moving(self) -> bool:
        return self._assignment is not None and self._assignment.is_moving

    def _take(self, now: PartitionState, event: Happened) -> None:
        self._state = now
        self._version = -1 if event.version is None else event.version

    def _first_sight(self, event: Happened, what: str) -> Finding:
        why = "the log does not show what was there before"
        return self._finding(event, what, (LISTED, "unknown", why))

    def _finding(self, event: Happened, what: str, judged: Judgement, ours: str = "") -> Finding:
        verdict, rule, why = judged
        if verdict != VIOLATION and event.fence is not None:
            reign = self._reigns.at(event.zxid)
            if reign.epoch and event.fence != reign.version:
                verdict, rule = VIOLATION, "fencing"
                why = f"fenced with version {event.fence} of the controller epoch, {reign.version} is in force"
        return Finding(event.zxid, event.time_ms, what, verdict, rule, why, ours)


def _same(ours: PartitionState, now: PartitionState) -> bool:
    return ours.leader == now.leader and ours.leader_epoch == now.leader_epoch and set(ours.isr) == set(now.isr)


def findings(topic: str, partition: int, events: Iterable[Happened], reigns: Reigns) -> Iterator[Finding]:
    """What the audit says of each write of one partition."""
    audit = PartitionAudit(topic, partition, reigns)
    for event in events:
        found = audit.add(event)
        if found is not None:
            yield found
