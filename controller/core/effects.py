"""What can leave the controller?"""

from __future__ import annotations

from msgspec import Struct

from controller.core.commands import Command
from controller.core.events import AskId, CommitId
from controller.core.replies import Reply
from zk_layout.catalog import Address, Value
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicName, TopicPartition, ZnodeVersion
from zk_layout.znodes.brokers import Registration


class Create(Struct, frozen=True):
    """Create a persistent znode; one that exists is a conflict."""

    address: Address
    value: Value | None


class Set(Struct, frozen=True):
    """Replace a znode's data; any version but `expected` is a conflict."""

    address: Address
    value: Value
    expected: ZnodeVersion


class Delete(Struct, frozen=True):
    """Delete a znode; any version but `expected` is a conflict."""

    address: Address
    expected: ZnodeVersion


Write = Create | Set | Delete


class Commit(Struct, frozen=True):
    """Write all of this or nothing, if no other controller has raised the controller epoch.

    Shape:
        `data` holds the encoded value of each write (empty for deletions), in the same order.
        `why` has one sentence for each decision, in domain words.
    """

    commit: CommitId
    writes: tuple[Write, ...]
    data: tuple[bytes, ...]
    why: tuple[str, ...]


class Read(Struct, frozen=True):
    """Read these znodes again, and where `watch` is set tell the next change of each too."""

    addresses: tuple[Address, ...]
    watch: bool = False


class Survey(Struct, frozen=True):
    """List everything below a topic's znode, also what nobody knows of; comes back as `Surveyed`."""

    topic: TopicName


class Connect(Struct, frozen=True):
    """Open a channel to a broker; what was queued for an earlier life of it is dropped."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    registration: Registration


class Disconnect(Struct, frozen=True):
    """Close the channel to a broker and drop what is queued."""

    broker: BrokerId


class Tell(Struct, frozen=True):
    """Send a command, after all those told to this broker before."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    controller_epoch: ControllerEpoch
    command: Command


class DescribeLogDirs(Struct, frozen=True):
    """Ask a broker how large these replicas are; it reads nothing else and changes nothing."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    registration: Registration
    partitions: tuple[TopicPartition, ...]


class Answer(Struct, frozen=True):
    """Answer a request."""

    ask: AskId
    reply: Reply


class Wake(Struct, frozen=True):
    """Ring once at this time, replacing an earlier alarm of the same key.

    Units:
        `at` is in monotonic seconds, as given to `Machine.turn`.
    """

    key: str
    at: float


class Notice(Struct, frozen=True):
    """Something a person should know: logged and counted.

    Shape:
        `kind` is a short stable name for metrics ("malformed znode"), `text` the sentence.
    """

    kind: str
    text: str


class Measured(Struct, frozen=True):
    """A figure for the metrics: `measure` names one in `metrics.measures`, `labels` are its label values in order."""

    measure: str
    value: float = 1.0
    labels: tuple[str, ...] = ()


class StepDown(Struct, frozen=True):
    """This process must stop being controller at once; it may stand again."""

    reason: str


class Drained(Struct, frozen=True):
    """Nothing is in flight any more; the resignation can be carried out."""


Effect = (
    Commit
    | Read
    | Survey
    | Connect
    | Disconnect
    | Tell
    | DescribeLogDirs
    | Answer
    | Wake
    | Notice
    | Measured
    | StepDown
    | Drained
)
