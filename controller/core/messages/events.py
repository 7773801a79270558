"""What can enter the controller?"""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from controller.core.messages.commands import Command
from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import Caller, Request
from controller.core.settings import MachineSettings
from zk_layout.catalog import Address
from zk_layout.facts import Fact
from zk_layout.ids import BrokerEpoch, BrokerId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.quotas import QuotaEntity

CommitId = NewType("CommitId", int)
CallId = NewType("CallId", int)


class Observed(Struct, frozen=True):
    """Znodes as read: after a watch fired, for a `Read`, or while loading."""

    facts: tuple[Fact, ...]


class Surveyed(Struct, frozen=True):
    """Everything below a topic's znode.

    Shape:
        In an order in which it can be deleted: children before their parents. Without the topic's own znode.
    """

    topic: TopicName
    found: tuple[tuple[Address, ZnodeVersion], ...]


class ReadRefused(Struct, frozen=True):
    """ZooKeeper does not let us read a znode, or list its children: only what was read earlier is known.

    Shape:
        `address` is that of the znode to be read; None if its children were to be listed.
    """

    path: str
    reason: str
    address: Address | None = None


class ReadAllowed(Struct, frozen=True):
    """A refused znode has been read, or is gone."""

    path: str


class QuotasRead(Struct, frozen=True):
    """The quotas on changes of topics were read at the beginning of a term, or after a change; None: no quota."""

    rates: tuple[tuple[QuotaEntity, float | None], ...]


class Loaded(Struct, frozen=True):
    """Everything has been observed once and is being watched."""


class Committed(Struct, frozen=True):
    """ZooKeeper accepted the whole transaction, at this zxid."""

    commit: CommitId
    zxid: Zxid


class Conflicted(Struct, frozen=True):
    """ZooKeeper refused the transaction: a znode was not at the expected version; nothing was written."""

    commit: CommitId
    address: Address
    reason: str


class Fenced(Struct, frozen=True):
    """ZooKeeper refused the transaction: another controller has raised the controller epoch."""

    commit: CommitId


class Unknown(Struct, frozen=True):
    """The connection was lost before ZooKeeper answered; the transaction may or may not have been written."""

    commit: CommitId


class Acknowledged(Struct, frozen=True):
    """A broker answered a command.

    `errors` are the refused partitions; if `error` is NONE, all others were accepted.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    command: Command
    error: ErrorCode
    errors: dict[TopicPartition, ErrorCode] = {}


class Asked(Struct, frozen=True):
    """A client or broker sent a request over the Kafka protocol."""

    call: CallId
    request: Request
    caller: Caller


class ReplicaSize(Struct, frozen=True, gc=False):
    """One replica's log on a broker's disk.

    Units:
        `size_bytes` is that of its segments; `lag` is in records, behind the high watermark the broker knows.
    """

    size_bytes: int
    lag: int = 0


class LogDirsDescribed(Struct, frozen=True):
    """A broker reported the sizes of its replicas, without those it does not have; `error` is why it did not.

    `is_of_waiting` is as in the question.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    sizes: dict[TopicPartition, ReplicaSize]
    error: str | None = None
    is_of_waiting: bool = False


class Directory(Struct, frozen=True, gc=False):
    """One log directory of a broker, on a volume of `total_bytes`, of which it may use `usable_bytes` more."""

    path: str
    total_bytes: int
    usable_bytes: int


class DisksDescribed(Struct, frozen=True):
    """A broker reported its log directories that are online, and the sizes of those replicas asked for that it has;
    `error` is why it did not.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    directories: tuple[Directory, ...] = ()
    sizes: dict[TopicPartition, ReplicaSize] = {}
    error: str | None = None


class BrokerConfigDescribed(Struct, frozen=True):
    """A broker reported settings of its own that were changed at run time; `error` is why it did not.

    Shape:
        `values` are without those that are not set, or that the broker does not show.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    values: dict[str, str]
    error: str | None = None


class LogEndsDescribed(Struct, frozen=True):
    """A broker reported where its logs end, without those that it does not have or show; `error` is why it did not.

    Units:
        `ends` are offsets, each one behind the last record.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    ends: dict[TopicPartition, int]
    error: str | None = None


class ClockShown(Struct, frozen=True):
    """The present wall-clock time in Unix milliseconds; the clock may be set during a term."""

    unix_ms: int


class Alarm(Struct, frozen=True):
    """A reason to be woken; each duty has types of its own. Setting an equal one again replaces it."""


class Again(Alarm, frozen=True):
    """One turn's budget is used up: take another turn."""


class Woke(Struct, frozen=True):
    """An alarm set with `Wake` rang."""

    alarm: Alarm


class SettingsChanged(Struct, frozen=True):
    """The operator has changed settings; only those in `ADJUSTABLE` count before the next term."""

    settings: MachineSettings


class ResignationAsked(Struct, frozen=True):
    """The process must end: decide nothing new, and report when nothing is in flight any more."""


Event = (
    Observed
    | Surveyed
    | ReadRefused
    | ReadAllowed
    | QuotasRead
    | Loaded
    | Committed
    | Conflicted
    | Fenced
    | Unknown
    | Acknowledged
    | Asked
    | LogDirsDescribed
    | DisksDescribed
    | BrokerConfigDescribed
    | LogEndsDescribed
    | ClockShown
    | Woke
    | SettingsChanged
    | ResignationAsked
)
