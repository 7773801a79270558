"""Was each write of a partition right, and which rule of the controller explains it?

Each write is compared with what this project's own rules would have decided in the same situation. Kafka's
controller reaches the same ends by more writes, and its extra ones are named; what neither explains is listed,
and what breaks an invariant is a violation.

Source: KIP-455; Kafka's KafkaController.onPartitionReassignment, PartitionStateMachine, ReplicaStateMachine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from controller.core.elections import leader_election
from controller.core.reassignment import rule as reassignment
from controller.core.stage import Stage, stage, toward
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, listed
from controller.core.steps.invariants import Held
from metrics.replay.audit.invariants import (
    broken_by_version,
    broken_by_write,
    dropped_too_early,
    let_go_too_early,
    overlooked,
)
from metrics.replay.audit.verdicts import EXPLAINED, KAFKA, LISTED, VIOLATION, Finding, Judgement
from metrics.replay.partitions.moves import Happened, assignment_of, state_of
from metrics.replay.partitions.terms import Term, Terms
from zk_layout.ids import NO_LEADER, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class PartitionAudit:
    """Audit one partition's writes in order.

    Shape:
        `is_of_others_too` says whether the verdicts so far depend only on the event and on the state
        before it. If not, they also depend on something later: a broker that stopped cleanly.
    """

    def __init__(self, topic: str, partition: int, terms: Terms, led_from: Mapping[int, Sequence[int]]) -> None:
        """`led_from` has, by broker, the transactions in which it became the partition's leader."""
        self._at = TopicPartition(TopicName(topic), PartitionId(partition))
        self._view = TopicView(self._at.topic)
        self._terms = terms
        self._led_from = led_from
        self._assignment: Assignment | None = None
        self._topic_version = -1
        self._state: PartitionState | None = None
        self._version = -1
        self._is_unannounced = False
        self._legacy: Replicas | None = None
        self._legacy_zxid = -1
        self.is_of_others_too = True

    def add(self, event: Happened) -> Finding | None:
        """Judge the next event; None if it is no write of the partition, or repeats what was known."""
        found = self._judged(event)
        self.take(event)
        return found

    def take(self, event: Happened) -> None:
        """Take the next event without judging it, as context for those that follow."""
        match event.kind:
            case "state" if event.isr is None:
                self._state, self._assignment, self._version, self._topic_version = None, None, -1, -1
                self._is_unannounced = False
            case "state":
                self._take_state(event)
            case "assignment":
                self._take_assignment(event)
            case "legacy_move":
                self._legacy, self._legacy_zxid = event.replicas or None, event.zxid

    def _judged(self, event: Happened) -> Finding | None:
        match event.kind:
            case "state" if event.isr is None:
                return self._judge_deletion(event)
            case "state":
                return self._judge_state(event)
            case "assignment":
                return self._judge_assignment(event)
        return None

    def _take_state(self, event: Happened) -> None:
        now = state_of(event)
        if self._state is None or now.leader_epoch > self._state.leader_epoch:
            self._is_unannounced = False
        self._state = now
        self._version = -1 if event.version is None else event.version

    def _take_assignment(self, event: Happened) -> None:
        now, before = assignment_of(event), self._before(event)
        if event.op == "create":
            self._topic_version = -1
        if now == before:
            return
        self._assignment = now
        self._topic_version = -1 if event.version is None else event.version
        if event.op != "known" and not _is_first_sight(event, before):
            self._is_unannounced = self._state is not None

    def _before(self, event: Happened) -> Assignment | None:
        """The assignment before this one; after a creation, that of a former topic of the same name does not count."""
        return None if event.op == "create" else self._assignment

    # ---- the state znode ------------------------------------------------------------------------------------

    def _judge_deletion(self, event: Happened) -> Finding:
        if self._is_unwanted(event):
            return self._finding(event, "state", (EXPLAINED, "deletion", f"{self._at} was deleted with its topic"))
        why = f"{self._at} was deleted, though /admin/delete_topics did not ask for it"
        return self._finding(event, "state", (LISTED, "deletion", why))

    def _judge_state(self, event: Happened) -> Finding | None:
        now, before = state_of(event), self._state
        if event.op == "known":
            return None
        if before is None and event.op == "set":
            return self._first_sight(event, "state")
        cluster = self._terms.cluster(self._terms.position(event.zxid))
        then, after = (Held(self._assignment, state) for state in (before, now))
        broken = broken_by_write(then, after, self._terms.at(event.zxid))
        if before is not None:
            broken = broken or broken_by_version(self._version, event.version, is_whole=True)
        if broken:
            judged: Judgement = (VIOLATION, "invariant", broken)
        elif before is None:
            judged = self._created(now, cluster)
        elif now.leader_epoch == before.leader_epoch:
            judged = self._isr_changed(before, now, cluster)
        elif (whole := self._handed_over_at_once(before, now, cluster)) is not None:
            judged = whole
        elif (ours := self._ours(cluster)) is not None and ours.state is not None and _same(ours.state, now):
            judged = (EXPLAINED, "reassignment" if self._is_moving or self._is_unannounced else "election", ours.why)
        else:
            judged = self._as_kafka(before, now, event, cluster)
        return self._finding(event, "state", judged, self._instead(judged[0], cluster))

    def _instead(self, verdict: str, cluster: Cluster) -> str:
        """The write that our rules would have made, if it differs."""
        if verdict == EXPLAINED:
            return ""
        ours = self._ours(cluster)
        if ours is not None:
            return ours.why
        return "no write: nothing of it calls for one" if verdict == KAFKA else ""

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

    def _handed_over_at_once(self, before: PartitionState, now: PartitionState, cluster: Cluster) -> Judgement | None:
        """The ISR by which a move's target is in sync, as its leader requested it, and the hand-over, in one write."""
        joined, assignment = tuple(r for r in now.isr if r not in before.isr), self._assignment
        if not joined or assignment is None or {*now.isr} != {*assignment.target}:
            return None
        if not cluster.is_live(before.leader) or reassignment.may_be_unclean(before, now):
            return None
        dead = tuple(r for r in now.isr if not cluster.is_live(r))
        if dead and now.leader_epoch == before.leader_epoch + 1:
            return LISTED, "isr", f"{listed(dead)} took over in the ISR {listed(now.isr)} without being live"
        case = Case(self._at, self._view, assignment, replace(before, isr=(*before.isr, *joined)))
        ours = reassignment.hand_over_at_once(case, before, cluster)
        if ours is None or ours.state is None or not _same(ours.state, now):
            return None
        return EXPLAINED, "reassignment", f"leader {before.leader} reports: {listed(joined)} caught up; {ours.why}"

    def _as_kafka(self, before: PartitionState, now: PartitionState, event: Happened, cluster: Cluster) -> Judgement:
        raised = now.leader_epoch - before.leader_epoch
        if raised > 1:
            return LISTED, "epoch", f"the leader epoch rose by {raised} at once"
        if self._is_unwanted(event) and set(now.isr) <= set(before.isr) and now.leader in (before.leader, NO_LEADER):
            return KAFKA, "deletion", f"the replicas of {self._at} are stopped one by one before its topic is deleted"
        if (gone := self._gone_with_their_replicas(before, now, cluster)) is not None:
            return gone
        broken = dropped_too_early(before, now, self._assignment)
        if broken and not any(self._is_stopping(r, event) for r in before.isr):
            return VIOLATION, "reassignment", broken
        if now.leader != before.leader:
            return self._led_otherwise(before, now, event, cluster)
        if now.isr == before.isr:
            return self._epoch_only(now)
        return self._isr_cut(before, now, event, cluster)

    def _gone_with_their_replicas(
        self, before: PartitionState, now: PartitionState, cluster: Cluster
    ) -> Judgement | None:
        """The leader and the ISR that an assignment leaves, if it was written just before and dropped any of them."""
        if self._assignment is None or not self._is_unannounced:
            return None
        replicas = self._assignment.replicas
        dropped = tuple(r for r in before.isr if r not in replicas)
        kept = tuple(r for r in before.isr if r in now.isr or (r in replicas and cluster.is_live(r)))
        stays = now.leader == before.leader or before.leader in dropped
        if not dropped or now.isr != kept or not stays or now.leader not in kept:
            return None
        return EXPLAINED, "reassignment", f"{listed(dropped)} left the ISR with their replicas; {now.leader} leads"

    def _isr_cut(self, before: PartitionState, now: PartitionState, event: Happened, cluster: Cluster) -> Judgement:
        left = tuple(r for r in before.isr if r not in now.isr)
        removing = self._assignment.removing if self._assignment else ()
        if left and not any(cluster.is_live(r) for r in left):
            return EXPLAINED, "election", f"{listed(left)} left the ISR: offline"
        if left and all(self._is_stopping(r, event) for r in left):
            return EXPLAINED, "shutdown", f"{listed(left)} left the ISR: shutting down"
        if left and set(left) <= set(removing):
            return KAFKA, "reassignment", f"leaving replica {listed(left)} was taken out of the ISR"
        return LISTED, "isr", f"the controller changed the ISR {listed(before.isr)} to {listed(now.isr)}"

    def _epoch_only(self, now: PartitionState) -> Judgement:
        if self._assignment is None or not self._is_moving:
            return KAFKA, "epoch", f"leader {now.leader} was announced again, with a new epoch"
        where = stage(self._assignment, now)
        if where is Stage.CATCHING_UP:
            replicas = listed(self._assignment.replicas)
            return EXPLAINED, "reassignment", f"leader {now.leader} must hear of the replicas {replicas}"
        return KAFKA, "reassignment", f"the target is in sync; leader {now.leader} alone learns of it"

    def _led_otherwise(
        self, before: PartitionState, now: PartitionState, event: Happened, cluster: Cluster
    ) -> Judgement:
        replicas = self._assignment.replicas if self._assignment else ()
        if now.leader == NO_LEADER:
            return self._left_alone(before, now, event, cluster)
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
        if before.leader not in now.isr and self._is_stopping(before.leader, event):
            return EXPLAINED, "shutdown", f"leader {before.leader} is shutting down; {now.leader} is in sync"
        return LISTED, "election", f"{now.leader} took over from {before.leader}, which was live"

    def _left_alone(self, before: PartitionState, now: PartitionState, event: Happened, cluster: Cluster) -> Judgement:
        leader, rule = before.leader, "election"
        if not any(cluster.is_live(r) for r in before.isr):
            return EXPLAINED, rule, f"leader {leader} is gone and no in-sync replica is online"
        is_stopping = self._is_stopping(leader, event)
        if is_stopping and now.isr in (before.isr, tuple(r for r in before.isr if r != leader)):
            why = f"offline leader {leader} was taken out of the ISR before another was chosen"
            return KAFKA, rule, why
        return LISTED, rule, f"leader {leader} lost its partition, though {listed(before.isr)} were in sync"

    def _ours(self, cluster: Cluster) -> Change | None:
        if self._assignment is None or self._state is None:
            return None
        case = Case(
            self._at, self._view, self._assignment, self._state,
            is_unannounced=self._is_unannounced, is_patience_over=True,
        )  # fmt: skip
        for rule in (leader_election.next_step, reassignment.next_step):
            step = rule(case, cluster)
            if isinstance(step, Change):
                return step
        return None

    # ---- the topic znode ------------------------------------------------------------------------------------

    def _judge_assignment(self, event: Happened) -> Finding | None:
        now, before = assignment_of(event), self._before(event)
        if now == before or event.op == "known":
            return None
        if _is_first_sight(event, before):
            return self._first_sight(event, "assignment")
        last_version = -1 if event.op == "create" else self._topic_version
        broken = broken_by_version(last_version, event.version, is_whole=False) if before is not None else ""
        broken = broken or broken_by_write(Held(before), Held(now), self._terms.at(event.zxid))
        if broken:
            judged: Judgement = (VIOLATION, "invariant", broken)
        elif now is None:
            judged = (LISTED, "deletion", f"{self._at} is no longer listed; Kafka never takes partitions from a topic")
        elif before is None:
            judged = (EXPLAINED, "creation", f"{self._at} placed on {listed(now.replicas)}")
        else:
            judged = self._moved(before, now, event)
        return self._finding(event, "assignment", judged)

    def _moved(self, before: Assignment, now: Assignment, event: Happened) -> Judgement:
        name = "reassignment"
        if now.is_moving:
            return self._begun(before, now, event)
        if not before.is_moving:
            if set(now.replicas) == set(before.replicas):
                return EXPLAINED, name, f"{self._at} was asked for the order {listed(now.replicas)}"
            if self._is_served_by(now.replicas):
                return EXPLAINED, name, f"{self._at} was asked to move to {listed(now.replicas)} (done in one step)"
            return LISTED, name, f"replicas changed from {listed(before.replicas)} without naming the move"
        if now.replicas == before.target:
            return self._completed(before, event)
        if set(now.replicas) == set(before.original):
            return EXPLAINED, name, f"the move of {self._at} was cancelled, back to {listed(now.replicas)}"
        isr = self._state.isr if self._state is not None else ()
        if now.replicas == tuple(r for r in before.replicas if r not in before.adding or r in isr):
            return EXPLAINED, name, f"the move of {self._at} was stopped gently: it keeps what had joined the ISR"
        if self._is_served_by(now.replicas):
            return EXPLAINED, name, f"{self._at} was redirected to {listed(now.replicas)} (done in one step)"
        return LISTED, name, f"the move to {listed(before.target)} ended with {listed(now.replicas)}"

    def _is_served_by(self, replicas: Replicas) -> bool:
        """Whether all of these are in sync, so that a move to them has nothing to wait for."""
        return self._state is not None and bool(replicas) and set(replicas) <= set(self._state.isr)

    def _begun(self, before: Assignment, now: Assignment, event: Happened) -> Judgement:
        name = "reassignment"
        planned = toward(before, now.target)
        if now != planned:
            return VIOLATION, name, f"a move to {listed(now.target)} should name {planned}, not {now}"
        overlooking = overlooked(self._legacy_of_failover(event), now.target)
        if overlooking:
            return VIOLATION, "legacy", overlooking
        asked = "by /admin/reassign_partitions" if self._legacy == now.target else "to move"
        word = "redirected" if before.is_moving else "asked"
        return EXPLAINED, name, f"{self._at} was {word} {asked} to {listed(now.target)}"

    def _completed(self, before: Assignment, event: Happened) -> Judgement:
        broken = let_go_too_early(before, self._state)
        if broken:
            return VIOLATION, "reassignment", broken
        overlooking = overlooked(self._legacy_of_failover(event), before.target)
        if overlooking:
            return VIOLATION, "legacy", overlooking
        if self._state is not None and stage(before, self._state) is not Stage.LETTING_GO:
            where = f"{stage(before, self._state).value}: ISR {listed(self._state.isr)}"
            return KAFKA, "reassignment", f"{self._at} was called moved to {listed(before.target)} while {where}"
        return EXPLAINED, "reassignment", f"{self._at} has moved to {listed(before.target)}"

    def _legacy_of_failover(self, event: Happened) -> Replicas | None:
        """The legacy znode's entry for the partition, if it is older than the election of the current controller."""
        claimed = self._terms.at(event.zxid).claimed
        if self._legacy is None or self._legacy_zxid >= claimed:
            return None
        return None if self._terms.has_legacy_ended(self._legacy_zxid, event.zxid) else self._legacy

    # ---- both -----------------------------------------------------------------------------------------------

    @property
    def _is_moving(self) -> bool:
        return self._assignment is not None and self._assignment.is_moving

    def _is_stopping(self, broker: int, event: Happened) -> bool:
        """Whether a broker was gone, or stopped cleanly: it led no more, and soon closed its session itself.

        Leaders may still add it to an ISR, because they learn of the shutdown after its last request to them.
        """
        if broker not in self._terms.at(event.zxid).brokers:
            return True
        self.is_of_others_too = self.is_of_others_too and not self._terms.ever_stops(broker)
        stop = self._terms.clean_stop_after(broker, event.zxid, event.time_ms)
        return stop is not None and not any(event.zxid < zxid < stop for zxid in self._led_from.get(broker, ()))

    def _is_unwanted(self, event: Happened) -> bool:
        return self._terms.is_unwanted(self._at.topic, event.zxid)

    def _first_sight(self, event: Happened, what: str) -> Finding:
        why = "the log does not show what was there before"
        return self._finding(event, what, (LISTED, "unknown", why))

    def _finding(self, event: Happened, what: str, judged: Judgement, ours: str = "") -> Finding:
        verdict, rule, why = judged
        term = self._terms.at(event.zxid)
        if verdict != VIOLATION and event.fence is not None and term.epoch and event.fence != term.version:
            verdict, rule = VIOLATION, "fencing"
            why = f"fenced with version {event.fence} of the controller epoch, {term.version} is in force"
        elif verdict in (EXPLAINED, KAFKA) and rule != "creation" and is_foreign(event.session, term):
            verdict, rule = LISTED, "by hand"
            why = f"session {event.session:#x} wrote it, neither the controller's nor a broker's; else: {why}"
        return Finding(event.zxid, event.time_ms, what, verdict, rule, why, ours, event.session)


def _is_first_sight(event: Happened, before: Assignment | None) -> bool:
    """Whether this is the topic znode's first write in the log, so that its former content is unknown."""
    return before is None and event.op == "set" and bool(event.is_first)


def is_foreign(session: int, term: Term) -> bool:
    """Whether the writer's session was neither a controller's nor a broker's."""
    return term.claimed >= 0 and session not in (0, term.session) and session not in term.sessions


def _same(ours: PartitionState, now: PartitionState) -> bool:
    return ours.leader == now.leader and ours.leader_epoch == now.leader_epoch and set(ours.isr) == set(now.isr)


def led_from(events: Iterable[Happened]) -> dict[int, list[int]]:
    """The transactions in which each broker became the leader."""
    found: dict[int, list[int]] = {}
    leader: int | None = None
    for event in events:
        if event.kind == "state" and event.leader != leader:
            leader = event.leader
            if leader is not None:
                found.setdefault(leader, []).append(event.zxid)
    return found


def findings(topic: str, partition: int, events: Iterable[Happened], terms: Terms) -> Iterator[Finding]:
    """The audit's finding for each write of one partition."""
    history = list(events)
    audit = PartitionAudit(topic, partition, terms, led_from(history))
    for event in history:
        found = audit.add(event)
        if found is not None:
            yield found
