"""How does what happened read: commits, commands to brokers, answers?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.core.messages.commands import Command, LeaderAndIsr, PartitionView, StopReplica, UpdateMetadata
from controller.core.messages.effects import Create, Delete, Set, Tell, Write
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    AclBinding,
    AclsCreated,
    AclsDeleted,
    AclsDescribed,
    ClusterDescription,
    FeaturesUpdated,
    LeadersElected,
    Operations,
    PartitionsAltered,
    PartitionsCreated,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    ScramCredentialsAltered,
    ShutdownPermitted,
    TopicCreated,
    TopicsCreated,
    TopicsDeleted,
)
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes.acls import AclChange, Acls
from zk_layout.znodes.admin import LegacyReassignment
from zk_layout.znodes.delegation_tokens import TokenChange
from zk_layout.znodes.features import Features
from zk_layout.znodes.move_records import MoveRecords
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.producer_ids import ProducerIdBlock
from zk_layout.znodes.reassignment_status import MoveProgress, RequestStatus, StatusRoot
from zk_layout.znodes.reassignments import FolderKeeper, Reassignment
from zk_layout.znodes.replica_deletions import ReplicaDeletions
from zk_layout.znodes.topics import Assignment, Topic


def ids(brokers: Sequence[int]) -> str:
    """Brokers as one word: 1,2,3."""
    return ",".join(map(str, brokers))


def write_lines(write: Write, before: object) -> list[str]:
    """One write; of a topic, only the partitions that change."""
    match write:
        case Create(address, value):
            return [f"  create {address.path}  {_value_text(value)}".rstrip()]
        case Delete(address, expected):
            return [f"  delete {address.path} v{expected}"]
        case Set(address, Topic() as value, expected) if isinstance(before, Topic):
            changed = [p for p, a in value.partitions.items() if before.partitions.get(p) != a]
            head = f"  set {address.path} v{expected}"
            kept = "" if value.topic_id == before.topic_id else f" topic_id={value.topic_id}"
            if len(changed) == 1:
                return [f"{head}  {changed[0]}: {_assignment_text(value.partitions[changed[0]])}{kept}"]
            return [f"{head}{kept}", *(f"    {p}: {_assignment_text(value.partitions[p])}" for p in changed)]
        case Set(address, value, expected):
            return [f"  set {address.path} v{expected}  {_value_text(value)}"]


def _assignment_text(assignment: Assignment) -> str:
    text = f"replicas={list(assignment.replicas)}"
    if assignment.is_moving:
        text += f" adding={list(assignment.adding)} removing={list(assignment.removing)}"
    return text


def _value_text(value: object) -> str:  # noqa: C901 (one flat match)
    match value:
        case PartitionState():
            recovering = " recovering" if value.leader_recovery_state else ""
            return f"leader={value.leader} isr={list(value.isr)} leader_epoch={value.leader_epoch}{recovering}"
        case Topic():
            return "; ".join(f"{p}: {_assignment_text(a)}" for p, a in value.partitions.items())
        case LegacyReassignment():
            return " ".join(f"{m.topic_partition}={ids(m.replicas)}" for m in value.moves)
        case ProducerIdBlock(broker, first, last):
            return f"broker={broker} {first} to {last}"
        case ReplicaDeletions():
            return " ".join(f"{p}={ids(replicas)}" for p, replicas in value.replicas.items())
        case RequestStatus():
            return _status_text(value)
        case MoveRecords():
            return _records_text(value)
        case Reassignment(assignment):
            return f"assignment={list(assignment)}"
        case FolderKeeper(controller_epoch):
            return f"controller_epoch={controller_epoch}"
        case Features(is_enabled, features):
            return f"{'enabled' if is_enabled else 'disabled'} {features}"
        case Acls(entries):
            return ", ".join(f"{e.permission} {e.principal} {e.operation} from {e.host}" for e in entries)
        case AclChange():
            return catalog.encode(value).decode()
        case TokenChange(token):
            return token
        case StatusRoot(last_request_id):
            return f"last_request_id={last_request_id}"
        case None:
            return ""
        case _:
            return str(value)


def _records_text(records: MoveRecords) -> str:
    who = f"principal={records.principal} client={records.client_id} address={records.address}"
    lines = [f"{records.origin} requested={records.requested_ms} parts={records.parts} {who}"]
    if records.reason is not None:
        lines[0] += f" reason={records.reason}"
    if records.give_up_ms is not None:
        lines[0] += f" give_up_ms={records.give_up_ms}"
    for topic, record in records.topics.items():
        lines += [f"{topic}-{p} to {list(to)} from {list(former)}" for p, (to, former) in record.moves.items()]
    return "\n    ".join(lines)


def _status_text(status: RequestStatus) -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in status.counts.items())
    times = f"requested={status.requested_ms} updated={status.updated_ms} finished={status.finished_ms}"
    lines = [f"request {status.request_id} by {status.origin}: {counts}; {times}"]
    if status.total_bytes is not None:
        speed = f"{status.bytes_per_second} bytes/s, {status.remaining_seconds} s left"
        lines.append(f"{status.copied_bytes} of {status.total_bytes} bytes, {speed}")
    for topic in status.topics:
        for p in topic.partitions:
            what = "back to" if p.is_cancel else "to"
            lines.append(f"{topic.topic}-{p.partition} {what} {list(p.replicas)}: {p.outcome or 'in progress'}")
            lines += [line.strip() for line in _progress_lines(p.progress)]
    return "\n    ".join(lines)


def _progress_lines(progress: MoveProgress | None) -> list[str]:
    if progress is None:
        return []
    return [
        f"    request {progress.request_id}, {progress.stage} since {progress.since_ms}: {progress.waits_for}",
        *(
            f"    replica {r.broker}: {r.copied_bytes} of {r.total_bytes} bytes, {r.bytes_per_second} bytes/s, "
            f"{r.remaining_seconds} s left" + (f", {r.error}" if r.error else "")
            for r in progress.replicas
        ),
    ]


class Telling:
    """Says what brokers are sent: each command once, with all its recipients, and the rest only if it is news."""

    def __init__(self) -> None:
        self._alive = ""

    def lines(self, tells: Sequence[Tell]) -> list[str]:
        """The commands of one turn, in order."""
        told: dict[str, list[BrokerId]] = {}
        new: dict[str, list[BrokerId]] = {}
        led = {
            view
            for t in tells
            if isinstance(t.command, LeaderAndIsr)
            for view in (*t.command.partitions, *t.command.new)
        }
        alive = self._alive
        for tell in tells:
            for text, is_new in self._texts(tell.command, led, alive):
                if tell.broker in told.setdefault(text, []):
                    continue
                told[text].append(tell.broker)
                if is_new:
                    new.setdefault(text, []).append(tell.broker)
        return [
            f"  tell {ids(sorted(brokers))}  {text}" + (f" new on {ids(sorted(new[text]))}" if text in new else "")
            for text, brokers in told.items()
        ]

    def _texts(self, command: Command, led: set[PartitionView], alive: str) -> Iterator[tuple[str, bool]]:
        match command:
            case LeaderAndIsr(partitions, new, _):
                yield from ((f"LeaderAndIsr {_view_text(v)}", False) for v in partitions)
                yield from ((f"LeaderAndIsr {_view_text(v)}", True) for v in new)
            case UpdateMetadata(partitions, brokers):
                self._alive = ids(sorted(b.broker for b in brokers))
                if self._alive != alive or not partitions:
                    yield f"UpdateMetadata brokers={self._alive}", False
                for view in partitions:
                    known = f"{view.topic}-{view.partition}" if view in led else _view_text(view)
                    yield f"UpdateMetadata {known}", False
            case StopReplica(stops):
                for stop in stops:
                    kind = " delete" if stop.is_deletion else ""
                    at = f"{stop.topic}-{stop.partition}"
                    yield f"StopReplica {at} leader_epoch={stop.leader_epoch}{kind}", False


def _view_text(view: PartitionView) -> str:
    text = (
        f"{view.topic}-{view.partition} leader={view.leader} leader_epoch={view.leader_epoch} "
        f"isr={list(view.isr)} v{view.partition_epoch} replicas={list(view.replicas)}"
    )
    if view.adding or view.removing:
        text += f" adding={list(view.adding)} removing={list(view.removing)}"
    if view.offline:
        text += f" offline={list(view.offline)}"
    if view.leader_recovery_state:
        text += " recovering"
    return text


def reply_lines(reply: Reply) -> list[str]:
    """An answer, one line a partition."""
    match reply:
        case ReassignmentsAltered(results):
            request = "" if reply.request_id is None else f" request {reply.request_id}"
            lines = [f"  answer {r.topic_partition} {_error(r.error, r.message)}{request}" for r in results]
            return lines if lines and not reply.error else [f"  answer {_error(reply.error, reply.message)}"]
        case PartitionsAltered(results):
            if reply.error:
                return [f"  answer {reply.error.name}"]
            return [
                f"  answer {r.topic or r.topic_id}-{r.partition} {r.error.name}"
                + ("" if r.error else f" leader={r.leader} isr={list(r.isr)} v{r.partition_epoch}")
                for r in results
            ] or ["  answer nothing: the leader asks again"]
        case ReassignmentsListed(moves):
            if reply.request_status is not None:
                return [f"  answer {_status_text(reply.request_status)}"]
            return [
                line
                for m in moves
                for line in (
                    f"  answer {m.topic_partition} replicas={list(m.replicas)} "
                    f"adding={list(m.adding)} removing={list(m.removing)}",
                    *_progress_lines(m.progress),
                )
            ] or ["  answer nothing moves"]
        case ShutdownPermitted() | ProducerIdsAllocated() | ScramCredentialsAltered() | FeaturesUpdated():
            return _other_lines(reply)
        case AclsDescribed() | AclsCreated() | AclsDeleted():
            return _acl_lines(reply)
        case TopicsCreated() | TopicsDeleted() | PartitionsCreated() | LeadersElected():
            return _topic_lines(reply)
        case ClusterDescription():
            whole = [f"  answer {_error(reply.error, reply.message)}"] if reply.error else []
            return [
                *whole,
                f"  answer controller={reply.controller} brokers={ids([n.broker for n in reply.nodes])}",
                *(
                    f"  answer {t.name}-{p.partition} leader={p.leader} isr={list(p.isr)} "
                    f"replicas={list(p.replicas)} {p.error.name}"
                    for t in reply.topics
                    for p in t.partitions
                ),
                *(f"  answer {t.name or t.topic_id} {t.error.name}" for t in reply.topics if t.error),
                *_operation_lines("cluster", reply.operations),
                *(line for t in reply.topics for line in _operation_lines(t.name, t.operations)),
            ]


def _operation_lines(name: str | None, operations: Operations | None) -> list[str]:
    return [] if operations is None else [f"  answer operations on {name}: {' '.join(operations) or 'none'}"]


def _other_lines(
    reply: ShutdownPermitted | ProducerIdsAllocated | ScramCredentialsAltered | FeaturesUpdated,
) -> list[str]:
    match reply:
        case ShutdownPermitted(remaining):
            left = " ".join(map(str, remaining))
            return [f"  answer {reply.error.name} remaining: {left or 'none'}"]
        case ProducerIdsAllocated(first, length, error):
            return [f"  answer {error.name}" if error else f"  answer producer ids {first} to {first + length - 1}"]
        case ScramCredentialsAltered(altered):
            return [f"  answer {r.user or 'nobody'} {_error(r.error, r.message)}" for r in altered]
        case FeaturesUpdated(updated, error, message):
            whole = [f"  answer {_error(error, message)}"] if error else []
            return whole + [f"  answer {r.feature} {_error(r.error, r.message)}" for r in updated]


def _acl_lines(reply: AclsDescribed | AclsCreated | AclsDeleted) -> list[str]:
    match reply:
        case AclsDescribed(bindings, error, message):
            if error:
                return [f"  answer {_error(error, message)}"]
            return [f"  answer {_binding_text(binding)}" for binding in bindings] or ["  answer no rights"]
        case AclsCreated(results):
            return [f"  answer {_error(r.error, r.message)}" for r in results]
        case AclsDeleted(filtered):
            lines = []
            for place, result in enumerate(filtered, 1):
                lines.append(f"  answer filter {place} {_error(result.error, result.message)}")
                lines += [f"    {_error(d.error, d.message)} {_binding_text(d)}" for d in result.deleted]
            return lines


def _binding_text(binding: AclBinding) -> str:
    resource, entry = binding.resource, binding.entry
    what = f"{resource.resource_type} {resource.pattern_type} {resource.name}"
    return f"{what}: {entry.permission} {entry.principal} {entry.operation} from {entry.host}"


def _topic_lines(reply: TopicsCreated | TopicsDeleted | PartitionsCreated | LeadersElected) -> list[str]:
    match reply:
        case TopicsCreated(results):
            told = [f"  answer {r.topic} {_error(r.error, r.message)}{_counts(r)}" for r in results]
            return [*told, *_throttle(reply)]
        case TopicsDeleted(results) | PartitionsCreated(results):
            return [*(f"  answer {r.topic} {_error(r.error, r.message)}" for r in results), *_throttle(reply)]
        case LeadersElected(results):
            if reply.error:
                return [f"  answer {reply.error.name}"]
            lines = [f"  answer {r.topic_partition} {_error(r.error, r.message)}" for r in results]
            return lines or ["  answer no election was needed"]


def _throttle(reply: TopicsCreated | TopicsDeleted | PartitionsCreated) -> list[str]:
    return [f"  throttled for {reply.throttle_ms} ms"] if reply.throttle_ms else []


def _counts(created: TopicCreated) -> str:
    if created.error:
        return ""
    configs = "".join(f" {config.name}={config.value}" for config in created.configs or ())
    identity = f" id={created.topic_id}" if created.topic_id else ""
    return f" partitions={created.partition_count} replicas={created.replication_factor}{configs}{identity}"


def _error(error: ErrorCode, message: str | None) -> str:
    return error.name if message is None else f"{error.name}: {message}"
