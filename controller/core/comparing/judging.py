"""Another controller wrote a partition's state: what would this one have written, and what explains the difference?

Kafka's controller reaches the same ends by more writes, and does what brokers and clients ask it by requests, which
ZooKeeper does not show. Neither counts as a difference.

Source: Kafka's PartitionStateMachine, ReplicaStateMachine and KafkaController.onPartitionReassignment.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from controller.core.elections import first_leader, leader_election
from controller.core.reassignment import rule as reassignment
from controller.core.stage import Stage, stage, without_strays
from controller.core.state.topics import Partition, TopicView
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Look, listed
from zk_layout.ids import NO_LEADER, TopicPartition
from zk_layout.znodes.configs import Config
from zk_layout.znodes.partition_state import PartitionState


class Outcome(StrEnum):
    """How a decision of the controller that leads and one of this controller compare."""

    SAME = "same"
    # Explained:
    STEP = "step of several"  # Kafka takes several writes for what is one here
    ASKED = "asked for"  # a broker or a client asked for it, by a request that ZooKeeper does not show
    OWN_TIME = "at its own time"  # preferred leaders: each controller looks at intervals of its own
    NEW_EPOCH = "new epoch only"  # here the leader would get a higher leader epoch, and nothing else (decision 86)
    UNSEEN = "not seen apart"  # a znode was written again before it was read
    # Differences:
    LEADER = "other leader"
    ISR = "other ISR"
    NOT_HERE = "not decided here"
    NOT_THERE = "not done there"


DIFFERENCES = frozenset({Outcome.LEADER, Outcome.ISR, Outcome.NOT_HERE, Outcome.NOT_THERE})


class Verdict(Struct, frozen=True):
    """What came of one comparison; `text` is a sentence, for differences only."""

    outcome: Outcome
    text: str = ""


SAME, STEP, ASKED, UNSEEN = map(Verdict, (Outcome.SAME, Outcome.STEP, Outcome.ASKED, Outcome.UNSEEN))


class Written(Struct, frozen=True, gc=False):
    """A state that the controller that leads wrote: what was there before, and what this one wanted, if it had decided.

    Shape:
        `former` has no state if the partition never had a leader.
    """

    at: TopicPartition
    former: Partition
    state: PartitionState
    epoch: int
    wanted: PartitionState | None = None


def judge(written: Written, topic: TopicView, cluster: Cluster, config: Config | None) -> Verdict:
    """Compare a write with what this controller wanted; if it had not decided, with what its rules say now.

    `config` are the topic's settings as last read.
    """
    ours: PartitionState | Look | None
    ours, why = written.wanted, ""
    if ours is None:
        ours, why = _decided(written, topic, cluster, config)
    former = written.former.state
    if not isinstance(ours, Look) and former is not None and not _is_same(ours or former, written.state):
        ours = _handed_over_at_once(written, former, topic, cluster) or ours
    if isinstance(ours, PartitionState) and _is_same(ours, written.state):
        return SAME
    if written.epoch != written.former.epoch + 1 or isinstance(ours, Look):
        return UNSEEN
    if former is None:
        return _other(written, ours, why)
    if topic.is_queued_for_deletion or _is_on_the_way(former, written.state, ours):
        return STEP
    if (ours is None or ours.leader == former.leader) and _is_asked(written, former, topic, cluster):
        return ASKED
    return _other(written, ours, why)


def is_end_of_move(former: Partition, now: Partition) -> bool:
    """Whether a move may end, by the rules: what it wrote before is in the state, or was just before."""
    states = (now.state, former.state)
    return any(stage(former.assignment, state) is Stage.LETTING_GO for state in states)


def _decided(
    written: Written, topic: TopicView, cluster: Cluster, config: Config | None
) -> tuple[PartitionState | Look | None, str]:
    """What the rules say of the state before, among the replicas of then or of now."""
    held, now = written.former, topic.partitions.get(written.at.partition)
    assignments = [held.assignment] if now is None else [held.assignment, now.assignment]
    for assignment in dict.fromkeys(a for a in assignments if a.replicas):
        whole, state, _ = without_strays(assignment, held.state)
        case = Case(written.at, topic, whole, state, is_patience_over=True, config=config)
        rules = (leader_election.next_step, reassignment.next_step) if state is not None else (first_leader.next_step,)
        for rule in rules:
            step = rule(case, cluster)
            if isinstance(step, Look):
                return step, step.why
            if isinstance(step, Change) and step.state is not None:
                return step.state, step.why
    return None, ""


def _handed_over_at_once(
    written: Written, former: PartitionState, topic: TopicView, cluster: Cluster
) -> PartitionState | None:
    """What this controller hands over if the leader requests the replicas that join by this write; None if nothing."""
    joined = tuple(r for r in written.state.isr if r not in former.isr)
    if not joined or not cluster.is_online(former.leader, written.at):
        return None
    case = Case(written.at, topic, written.former.assignment, replace(former, isr=(*former.isr, *joined)))
    change = reassignment.hand_over_at_once(case, former, cluster)
    return change.state if change is not None else None


def _is_same(ours: PartitionState, theirs: PartitionState) -> bool:
    """Whether both have the same leader and ISR. Leader epochs differ, as the number of writes does."""
    return ours.leader == theirs.leader and set(ours.isr) == set(theirs.isr)


def _is_on_the_way(former: PartitionState, theirs: PartitionState, ours: PartitionState | None) -> bool:
    """Whether their write did a part of ours and nothing else; what is left of ours is then decided again."""
    if ours is None:
        return _is_same(former, theirs)
    leaders = (former.leader, ours.leader, NO_LEADER)
    return theirs.leader in leaders and set(ours.isr) <= set(theirs.isr) <= set(former.isr)


def _is_asked(written: Written, former: PartitionState, topic: TopicView, cluster: Cluster) -> bool:
    """Whether a request explains it: a shutdown, an election, a failed log directory; or a move that goes on."""
    theirs, at = written.state, written.at
    now = topic.partitions.get(at.partition)
    replicas = written.former.assignment.replicas if now is None else now.assignment.replicas
    removing = () if now is None else now.assignment.removing
    left = {r for r in former.isr if r not in theirs.isr}
    if not set(theirs.isr) <= set(former.isr):
        return False
    if theirs.leader == former.leader:
        return all(cluster.is_online(r, at) or r in removing for r in left)
    if not cluster.is_online(former.leader, at) or theirs.leader not in former.isr:
        return False
    return former.leader in left or former.leader in removing or theirs.leader == replicas[0]


def _other(written: Written, ours: PartitionState | None, why: str) -> Verdict:
    theirs, former = written.state, written.former.state
    was = "no state" if former is None else _named(former)
    there = f"{written.at}: the controller that leads wrote {_named(theirs)}, after {was}"
    if ours is None:
        return Verdict(Outcome.NOT_HERE, f"{there}; this one would have left it as it was")
    outcome = Outcome.ISR if theirs.leader == ours.leader else Outcome.LEADER
    return Verdict(outcome, f"{there}; this one would have written {_named(ours)}{why and f': {why}'}")


def _named(state: PartitionState) -> str:
    leader = "no leader" if state.leader == NO_LEADER else f"leader {state.leader}"
    return f"{leader}, ISR {listed(state.isr)}"
