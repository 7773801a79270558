"""Did the moves of a file complete? If nothing moves any more, throttles are removed.

Source: Kafka's ReassignPartitionsCommand, `verifyAssignment`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from msgspec import Struct

from controller.reassign.answer import Answer
from controller.reassign.cluster import Cluster, Directories, hosting
from controller.reassign.executing import read_plan_file
from controller.reassign.input_file import File
from controller.reassign.plans import Plan, Replica, listed, plural
from controller.reassign.refusals import Unusable
from controller.reassign.throttles import unthrottle
from zk_layout.ids import BrokerId, Replicas, TopicName, TopicPartition

INCOMPLETE = (
    "Warning: because you are using the deprecated --zookeeper option, the results may be incomplete.  Use "
    "--bootstrap-server instead for more accurate results."
)


class Outcome(StrEnum):
    """The state of one requested replica or partition."""

    COMPLETE = "complete"
    IN_PROGRESS = "in progress"
    ELSEWHERE = "elsewhere"  # nothing moves it, and it is not at its target
    MISSING = "missing"


class PartitionOutcome(Struct, frozen=True):
    """One partition of the file."""

    outcome: Outcome
    replicas: Replicas
    target: Replicas


def verify(cluster: Cluster, plan_file: File, *, preserve_throttles: bool, answer: Answer) -> None:
    """Print the state of each partition and each replica in the file."""
    plan = read_plan_file(plan_file)
    if not cluster.has_log_dirs:
        if plan.directories:
            raise Unusable("bootstrap-server needs to be provided when replica reassignments are present.")
        answer.warn(INCOMPLETE)
    moves = cluster.listing().moves
    partitions = _partition_outcomes(cluster, plan, set(moves))
    answer.say("Status of partition reassignment:")
    for at, found in sorted(partitions.items()):
        answer.say(partition_sentence(at, found))
    directories = cluster.directories(plan.directories) if cluster.has_log_dirs else {}
    replicas = {r: replica_outcome(directories.get(r), wanted) for r, wanted in plan.directories.items()}
    sentences = [replica_sentence(r, directories.get(r), plan.directories[r]) for r in sorted(replicas)]
    if cluster.has_log_dirs:
        answer.say("\n".join(sentences))
    outcomes = [*(found.outcome for found in partitions.values()), *replicas.values()]
    answer.document |= {
        "is_complete": all(outcome is Outcome.COMPLETE for outcome in outcomes),
        "is_anything_moving": bool(moves) or not _all_over(replicas.values()),
        "partitions": [
            {
                "topic": at.topic,
                "partition": at.partition,
                "outcome": found.outcome,
                "replicas": list(found.replicas),
                "target": list(found.target),
            }
            for at, found in sorted(partitions.items())
        ],
        "log_dirs": [
            {"topic": r.topic, "partition": r.partition, "broker": r.broker, "outcome": outcome}
            for r, outcome in sorted(replicas.items())
        ],
    }
    if not moves and _all_over(replicas.values()) and not preserve_throttles:
        brokers = {broker for target in plan.targets.values() for broker in target}
        clear_throttles(cluster, brokers, {at.topic for at in plan.targets}, answer)


def clear_throttles(
    cluster: Cluster, brokers: Collection[BrokerId], topics: Collection[TopicName], answer: Answer
) -> None:
    """Remove the throttles of these topics, and of all live brokers and these.

    A broker that is down keeps its own: only the broker can change them.
    """
    live = hosting(cluster.nodes())
    named = sorted({*live, *brokers})
    reachable = named if not cluster.has_log_dirs else sorted(live)
    answer.say(f"Clearing broker-level throttles on broker{plural(named)} {listed(named)}")
    failed = dict(cluster.configure(unthrottle(reachable, ())))
    answer.say(f"Clearing topic-level throttles on topic{plural(sorted(topics))} {listed(sorted(topics))}")
    failed |= cluster.configure(unthrottle((), topics))
    for of, reason in failed.items():
        answer.fail(f"the throttles of {of.kind.name.lower()} {of.name} were not removed: {reason}")
    if lost := sorted(set(named) - set(reachable)):
        answer.fail(
            f"the throttles of broker{plural(lost)} {listed(lost)} were not removed: not alive; repeat --verify when "
            "it is back"
        )
    answer.document["cleared_throttles"] = {"brokers": reachable, "topics": sorted(topics)}


def partition_sentence(at: TopicPartition, found: PartitionOutcome) -> str:
    """In the words of Kafka's tool since 3.3."""
    if found.outcome is Outcome.IN_PROGRESS:
        return f"Reassignment of partition {at} is still in progress."
    if found.outcome is Outcome.COMPLETE:
        return f"Reassignment of partition {at} is completed."
    return (
        f"There is no active reassignment of partition {at}, but replica set is {listed(found.replicas)} rather than "
        f"{listed(found.target)}."
    )


def replica_outcome(found: Directories | None, wanted: str) -> Outcome:
    """The state of one replica on its way between directories."""
    if found is None or found.current is None:
        return Outcome.MISSING
    if found.future is not None:
        return Outcome.IN_PROGRESS
    return Outcome.COMPLETE if found.current == wanted else Outcome.ELSEWHERE


def replica_sentence(replica: Replica, found: Directories | None, wanted: str) -> str:
    """In the words of Kafka's tool."""
    subject = f"Partition {replica.topic}-{replica.partition}"
    if found is None:
        return f"{subject} cannot be found in any live log directory on broker {replica.broker}."
    if found.current is None:
        return (
            f"{subject} is not found in any live log dir on broker {replica.broker}. There is likely an offline log "
            "directory on the broker."
        )
    if found.future == wanted:
        return f"Reassignment of replica {replica} is still in progress."
    if found.future is not None:
        return f"{subject} on broker {replica.broker} is being moved to log dir {found.future} instead of {wanted}."
    if found.current == wanted:
        return f"Reassignment of replica {replica} completed successfully."
    return f"{subject} on broker {replica.broker} is not being moved from log dir {found.current} to {wanted}."


def _partition_outcomes(
    cluster: Cluster, plan: Plan, moving: Collection[TopicPartition]
) -> Mapping[TopicPartition, PartitionOutcome]:
    topics = cluster.topics({at.topic for at in plan.targets})
    found = {}
    for at, target in plan.targets.items():
        state = topics.get(at.topic, {}).get(at.partition)
        replicas = state.replicas if state else ()
        if at in moving:
            outcome = Outcome.IN_PROGRESS
        elif state is None:
            outcome = Outcome.MISSING
        else:
            outcome = Outcome.COMPLETE if replicas == target else Outcome.ELSEWHERE
        found[at] = PartitionOutcome(outcome, replicas, target)
    return found


def _all_over(outcomes: Collection[Outcome]) -> bool:
    """Whether no replica is moving or may be: one that is not found may be anywhere."""
    return not any(outcome in (Outcome.IN_PROGRESS, Outcome.MISSING) for outcome in outcomes)
