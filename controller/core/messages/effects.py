"""What can leave the controller?"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from controller.core.messages import commands, events, replies, requests
from zk_layout import catalog
from zk_layout.catalog import Address, Value
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Replicas,
    RequestId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.acls import AclOperation, ResourcePattern
from zk_layout.znodes.brokers import Registration


class Create(Struct, frozen=True):
    """Create a persistent znode; an existing one is a conflict.

    Shape:
        With `is_sequential`, ZooKeeper appends a number to the name, so that it cannot exist yet.
    """

    address: Address
    value: Value | None
    is_sequential: bool = False


class Set(Struct, frozen=True):
    """Replace a znode's data; any version but `expected` is a conflict.

    Shape:
        With `life`, so is a znode of that name and version created at another zxid.
    """

    address: Address
    value: Value
    expected: ZnodeVersion
    life: Zxid | None = None


class Delete(Struct, frozen=True):
    """Delete a znode; another version or another life is a conflict, as with `Set`."""

    address: Address
    expected: ZnodeVersion
    life: Zxid | None = None


Write = Create | Set | Delete


class Operation(Struct, frozen=True):
    """One write with its encoded data; a deletion has none."""

    write: Write
    data: bytes


def operation(write: Write) -> Operation:
    """Encode a write."""
    return Operation(write, b"" if isinstance(write, Delete) else catalog.encode(write.value))


class Commit(Struct, frozen=True):
    """Write all of this or nothing, if no other controller has raised the controller epoch.

    Shape:
        `why` has one sentence for each decision, in domain words.
    """

    commit: events.CommitId
    operations: tuple[Operation, ...]
    why: tuple[str, ...]

    @property
    def writes(self) -> tuple[Write, ...]:
        """The writes, without encoded data."""
        return tuple(operation.write for operation in self.operations)


class Read(Struct, frozen=True):
    """Read these znodes again; with `watch`, also report the next change of each."""

    addresses: tuple[Address, ...]
    watch: bool = False


class ReadChildren(Struct, frozen=True):
    """Read all children of a znode once, and report which known ones are gone; sets no watch."""

    parent: str


class ReadAgain(Struct, frozen=True):
    """Read what could not be read, or list its children if that was refused."""

    paths: tuple[str, ...]


class Survey(Struct, frozen=True):
    """List everything below a topic's znode, even if unknown; `Surveyed` returns it."""

    topic: TopicName


class Connect(Struct, frozen=True):
    """Open a channel to a broker; commands queued for an earlier registration are dropped."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    registration: Registration


class Disconnect(Struct, frozen=True):
    """Close the channel to a broker and drop queued commands."""

    broker: BrokerId


class Tell(Struct, frozen=True):
    """Send a command, after all earlier ones for this broker."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    controller_epoch: ControllerEpoch
    command: commands.Command


class DescribeLogDirs(Struct, frozen=True):
    """Ask a broker for the sizes of these replicas; it reads nothing else and changes nothing.

    `is_of_waiting`: their moves wait. Neither such a question nor one about moves under way waits for the other.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    registration: Registration
    partitions: tuple[TopicPartition, ...]
    is_of_waiting: bool = False


class DescribeDisks(Struct, frozen=True):
    """Ask a broker how much room its log directories have, and at the same moment for the sizes of these replicas."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    registration: Registration
    partitions: tuple[TopicPartition, ...]


class DescribeBrokerConfig(Struct, frozen=True):
    """Ask a broker which values of these settings of its own, changed at run time, are in force."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    registration: Registration
    keys: tuple[str, ...]


class DescribeLogEnds(Struct, frozen=True):
    """Ask a broker where its own logs of these partitions end, whether it leads them or not."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    registration: Registration
    partitions: tuple[TopicPartition, ...]


class Answer(Struct, frozen=True):
    """Answer a request."""

    call: events.CallId
    reply: replies.Reply


class Wake(Struct, frozen=True):
    """Ring once at this time, replacing an equal alarm set before.

    Units:
        `at` is in monotonic seconds, as given to `Machine.turn`.
    """

    alarm: events.Alarm
    at: float


NOTICE_KINDS = (
    "changed throttle",
    "delayed topic deletion",
    "duplicate topic id",
    "epoch out of reach",
    "forced reassignment",
    "higher controller epoch",
    "large znode",
    "limited legacy reassignment",
    "lower size limit",
    "malformed znode",
    "missing records",
    "missing replicas",
    "missing request id",
    "move gave up",
    "moves held up",
    "odd znode",
    "outdated topic deletion",
    "overtaken move",
    "oversized znode",
    "overwritten assignment",
    "refused command",
    "refused legacy reassignment",
    "refused reassignment znode",
    "refused shutdown",
    "refused transaction",
    "removed topic znode",
    "replica on controller",
    "set aside",
    "stopped journal",
    "unavailable producer ids",
    "unseen throttle",
    "unthrottled moves",
    "unknown disks",
    "unknown sizes",
    "unknown znode",
    "unreadable znode",
    "withdrawn topic deletion",
    "withheld replica deletion",
)


class Notice(Struct, frozen=True):
    """Something an operator should know: logged and counted.

    Shape:
        `kind` is one of `NOTICE_KINDS`, a short stable name for metrics; `text` is the sentence.
    """

    kind: str
    text: str


class Measured(Struct, frozen=True):
    """A figure for the metrics: `measure` names one in `metrics.measures`, `labels` are its label values in order."""

    measure: str
    value: float = 1.0
    labels: tuple[str, ...] = ()


class Record(StrEnum):
    """What the audit trail records, besides requests."""

    ELECTION = "election"
    MOVE = "move"
    TOPIC = "topic"


class Recorded(Struct, frozen=True):
    """What happened in this turn, for the audit trail.

    Shape:
        `lines` are sentences about the first few; `count` is of all of them.
    """

    record: Record
    lines: tuple[str, ...]
    count: int


class Decision(Struct, frozen=True):
    """Whether a caller was allowed an operation, and why, in words."""

    operation: AclOperation
    resource: ResourcePattern
    is_allowed: bool
    why: str


class Decided(Struct, frozen=True):
    """The decisions about the rights of a request, for the authorizer's log.

    Shape:
        `request` is the name of its type. `decisions` are all allowed, or all denied; `untold` more are like them.
    """

    caller: requests.Caller
    request: str
    decisions: tuple[Decision, ...]
    untold: int = 0


class Asking(Struct, frozen=True):
    """Who asked for moves, by which way (`origin`), when and why; None where it is not known.

    Units:
        `requested_ms` is in Unix milliseconds.
    """

    request: RequestId | None
    origin: str
    requested_ms: int
    caller: requests.Caller | None = None
    reason: str | None = None


class RequestAccounted(Struct, frozen=True):
    """A request got its id, or has ended: for the log of moves. `counts` are its partitions by outcome."""

    by: Asking
    at_ms: int
    is_end: bool
    counts: tuple[tuple[str, int], ...]


class MoveAccounted(Struct, frozen=True):
    """A move of a request has ended: for the log of moves.

    Shape:
        `outcome` is as in the request's status. What is None is not known.
    """

    by: Asking
    at_ms: int
    at: TopicPartition
    before: Replicas | None
    after: Replicas
    is_cancel: bool
    outcome: str
    copied_bytes: int | None
    waiting_s: float | None
    copying_s: float | None
    finishing_s: float | None


class Differed(Struct, frozen=True):
    """The controller that leads decided otherwise than this one, which only observes, would have.

    Shape:
        `outcome` is one of `controller.core.comparing.judging.DIFFERENCES`; `text` is the sentence.
    """

    outcome: str
    text: str


class StepDown(Struct, frozen=True):
    """This process must stop being controller at once; it may stand again.

    Shape:
        `is_outranked`: brokers know a higher controller epoch than ours, and obey no controller with a lower one.
        `surpass`, unless negative: this process stays the holder, and leads again with an epoch above this one.
    """

    reason: str
    is_outranked: bool = False
    surpass: ControllerEpoch = ControllerEpoch(-1)


class Drained(Struct, frozen=True):
    """Nothing is in flight any more; the resignation can proceed."""


Effect = (
    Commit
    | Read
    | ReadChildren
    | ReadAgain
    | Survey
    | Connect
    | Disconnect
    | Tell
    | DescribeLogDirs
    | DescribeDisks
    | DescribeBrokerConfig
    | DescribeLogEnds
    | Answer
    | Wake
    | Notice
    | Measured
    | Recorded
    | Decided
    | RequestAccounted
    | MoveAccounted
    | Differed
    | StepDown
    | Drained
)
