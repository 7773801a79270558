"""Starting moves: what is checked, printed and requested?

Source: Kafka's ReassignPartitionsCommand, `executeAssignment`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct, structs

from controller.reassign.answer import Answer
from controller.reassign.cluster import (
    NOTHING_ADDED,
    Added,
    Answered,
    Cluster,
    Configured,
    Mode,
    PartitionState,
    Settings,
    unfit,
)
from controller.reassign.input_file import File
from controller.reassign.planning.certified import differences, hash_of
from controller.reassign.plans import (
    Plan,
    Replica,
    as_lines,
    as_plan,
    as_plan_json,
    demand_executable,
    listed,
    plural,
    read_plan,
)
from controller.reassign.refusals import Declined, Refused, Unusable
from controller.reassign.throttles import copying, throttle_log_dirs, throttle_replication
from zk_layout.ids import PartitionId, Replicas, TopicName, TopicPartition

EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
SLOWS_RETURNING = (
    "Warning: Kafka's controller leads, so the leaders are throttled too: they also slow down replicas of these "
    "partitions that return after a failure, and take the longer to be in sync. Where this project's controller leads, "
    "only receiving replicas are throttled."
)
NO_REASON_KEPT = "Warning: Kafka's controller leads, which keeps no reasons: --reason is not sent."
NOTHING_WAITS = "Warning: Kafka's controller leads, where moves do not wait to begin: --give-up-after is not sent."
NO_WEIGHTS = "Warning: Kafka's controller leads, where all moves begin at once: the weights of the file are not sent."
_PAUSE_S = 0.1
_Topics: TypeAlias = Mapping[TopicName, Mapping[PartitionId, PartitionState]]


class Clock(Struct, frozen=True):
    """The time of day in seconds, and a way to let it pass."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


class Execution(Struct, frozen=True):
    """What to execute, and how.

    Units:
        Throttles in bytes a second; None sets none. `timeout_ms` bounds the wait for log directory moves to start.
        After `give_up_ms` a move that has not begun is dropped.
    Shape:
        `is_partial`: of a file that `plan` made, leave out what has changed since. `reason` says why, for the record.
    """

    plan_file: File
    additional: bool = False
    throttle: int | None = None
    log_dirs_throttle: int | None = None
    timeout_ms: int = 10_000
    mode: Mode | None = None
    is_partial: bool = False
    reason: str | None = None
    give_up_ms: int | None = None


def read_plan_file(file: File) -> Plan:
    """Parse the plan of a file, without further checks."""
    return read_plan(file.read_bytes(), file.name)


def execute(cluster: Cluster, asked: Execution, answer: Answer, clock: Clock) -> Plan:
    """Start the moves of a file.

    Raises:
        Stopped: nothing was started, or some partitions were refused.
    """
    plan = read_plan_file(asked.plan_file)
    demand_executable(plan, asked.plan_file.name)
    if plan.directories and not cluster.has_log_dirs:
        raise Unusable("bootstrap-server needs to be provided when replica reassignments are present.")
    listing = cluster.listing()
    if listing.moves and not asked.additional:
        answer.document["moving"] = [str(at) for at in sorted(listing.moves)]
        raise Declined(EXISTING)
    topics = cluster.topics({at.topic for at in plan.targets})
    plan = _as_planned(cluster, plan, topics, asked, answer)
    current = _current(cluster, plan, topics)
    answer.say("Current partition replica assignment\n")
    answer.say(as_plan_json(current))
    answer.say("\nSave this to use as the --reassignment-json-file option during rollback")
    answer.document["rollback"] = as_plan(current)
    is_ours = listing.controller is not None
    if (asked.throttle is not None and not is_ours) or asked.log_dirs_throttle is not None:
        answer.warn(RUN_VERIFY)
    if asked.throttle is not None and not is_ours:
        answer.warn(SLOWS_RETURNING)
        changes = throttle_replication(copying(listing.moves, plan.targets, current), asked.throttle)
        configure(cluster, changes)
        answer.say(f"The inter-broker throttle limit was set to {asked.throttle} B/s")
    if asked.log_dirs_throttle is not None:
        configure(cluster, throttle_log_dirs(plan.directories, asked.log_dirs_throttle))
        answer.say(f"The replica-alter-dir throttle limit was set to {asked.log_dirs_throttle} B/s")
    answered = cluster.alter(dict(plan.targets), asked.mode, _added(asked, plan, answer, is_ours=is_ours))
    if asked.throttle is not None and is_ours and len(answered.refused) < len(plan.targets):
        answer.say(f"The inter-broker throttle limit was set to {asked.throttle} B/s")
        answer.say("It holds for receiving replicas only; the controller ends it with their moves")
    _begin(answered, plan, answer)
    move_directories(cluster, plan.directories, asked.timeout_ms, answer, clock)
    return plan


def _added(asked: Execution, plan: Plan, answer: Answer, *, is_ours: bool) -> Added:
    """What to send beyond Kafka's schema; nothing to Kafka's own controllers."""
    if is_ours:
        return Added(asked.throttle, asked.reason, asked.give_up_ms, plan.weights)
    if asked.reason is not None:
        answer.warn(NO_REASON_KEPT)
    if asked.give_up_ms is not None:
        answer.warn(NOTHING_WAITS)
    if plan.weights:
        answer.warn(NO_WEIGHTS)
    return NOTHING_ADDED


def _as_planned(cluster: Cluster, plan: Plan, topics: _Topics, asked: Execution, answer: Answer) -> Plan:
    """The plan, or what of it has not changed since it was made."""
    certificate, name = plan.certificate, asked.plan_file.name
    if certificate is None:
        if asked.is_partial:
            raise Unusable(f"--partial: {name} was not made by `kafka-zk-controller plan`")
        return plan
    if hash_of(certificate, plan.targets) != certificate.hash:
        raise Refused(
            f"{name}: not the plan that was shown: the file was changed after {certificate.hash} was made; plan again, "
            "or remove `plan` from the file to execute it as it is"
        )
    ids = cluster.topic_ids({at.topic for at in plan.targets})
    changed = differences(certificate, plan.targets, _replicas(topics), ids)
    if not changed:
        return plan
    answer.document["changed"] = {str(at): reason for at, reason in sorted(changed.items())}
    rest = tuple(planned for planned in plan.partitions if planned.at not in changed)
    if not asked.is_partial or not rest:
        hint = f"; --partial executes the other {len(rest)}" if rest else ""
        heading = f"{name}: the cluster has changed since this plan was made, nothing was started{hint}:"
        raise Declined("\n".join([heading, as_lines(by_partition(changed))]))
    answer.warn(as_lines(["left out, because they have changed since:", *by_partition(changed)]))
    return structs.replace(plan, partitions=rest)


def _begin(answered: Answered, plan: Plan, answer: Answer) -> None:
    begun = sorted(at for at in plan.targets if at not in answered.refused)
    answer.document["started"] = [{"topic": at.topic, "partition": at.partition} for at in begun]
    if begun:
        answer.say(f"Successfully started partition reassignment{plural(begun)} for {listed(begun)}")
    if answered.request_id is not None:
        answer.document["request_id"] = answered.request_id
        answer.say(f"This is request {answered.request_id}: follow it with --progress --request {answered.request_id}")
    if answered.refused:
        answer.document["refused"] = {str(at): reason for at, reason in sorted(answered.refused.items())}
        raise Declined("\n".join(["Error reassigning partition(s):", *by_partition(answered.refused)]))


def move_directories(
    cluster: Cluster, targets: Mapping[Replica, str], timeout_ms: int, answer: Answer, clock: Clock
) -> None:
    """Ask repeatedly, since a replica whose move has just started is not on its broker yet.

    Raises:
        Refused: a broker cannot, or some moves had not started in time.
    """
    deadline = clock.now() + timeout_ms / 1000
    pending = dict(targets)
    begun: list[Replica] = []
    while pending:
        answers = cluster.move_directories(pending)
        failed = {replica: reason for replica, reason in answers.items() if reason is not None}
        for replica in sorted(set(answers) - set(failed)):
            begun.append(replica)
            answer.say(
                f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker}"
            )
        answer.document["log_dirs_started"] = [str(replica) for replica in begun]
        if failed:
            reasons = [f"Failed to alter dir for {replica}: {reason}" for replica, reason in sorted(failed.items())]
            raise Refused("\n".join(reasons))
        if pending and clock.now() >= deadline:
            waiting = sorted(pending)
            raise Declined(
                f"Timed out before log directory move{plural(waiting)} could be started for: {listed(waiting)}; "
                "repeat with --additional, or with a longer --timeout"
            )
        if pending:
            clock.sleep(_PAUSE_S)


def configure(cluster: Cluster, changes: Mapping[Configured, Settings]) -> None:
    """Change all settings.

    Raises:
        Refused: with the reason for each that could not be changed.
    """
    if failed := cluster.configure(changes):
        raise Refused("\n".join(["Error setting throttles, nothing was moved:", *_by_owner(failed)]))


def by_partition(reasons: Mapping[TopicPartition, str]) -> list[str]:
    """One line a partition, in order."""
    return [f"{at}: {reason}" for at, reason in sorted(reasons.items())]


def _by_owner(reasons: Mapping[Configured, str]) -> list[str]:
    return [f"{of.kind.name.lower()} {of.name}: {reason}" for of, reason in reasons.items()]


def _replicas(topics: _Topics) -> dict[TopicPartition, Replicas]:
    return {TopicPartition(t, p): state.replicas for t, partitions in topics.items() for p, state in partitions.items()}


def _current(cluster: Cluster, plan: Plan, topics: _Topics) -> dict[TopicPartition, Replicas]:
    """The present replicas of the plan's partitions; names everything unknown at once."""
    found = _replicas(topics)
    live = cluster.nodes()
    wanted = {broker for target in plan.targets.values() for broker in target}
    reasons = unfit(wanted, live)
    if down := sorted({b for replicas in found.values() for b in replicas if b in wanted and b not in live}):
        reasons.append(f"broker{plural(down)} {listed(down)}: hosting replicas, but not alive; start it first")
    reasons += [f"Topic {topic} not found." for topic in sorted({at.topic for at in plan.targets} - set(topics))]
    missing = sorted(at for at in plan.targets if at.topic in topics and at not in found)
    if missing:
        reasons.append(f"Unable to find partition: {', '.join(map(str, missing))}")
    if reasons:
        raise Refused("\n".join(reasons))
    return {at: found[at] for at in plan.targets}
