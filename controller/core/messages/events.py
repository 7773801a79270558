"""What can enter the controller?"""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from controller.core.messages.commands import Command
from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import Caller, Request
from zk_layout.catalog import Address
from zk_layout.facts import Fact
from zk_layout.ids import BrokerEpoch, BrokerId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.quotas import QuotaEntity

CommitId = NewType("CommitId", int)
CallId = NewType("CallId", int)


class Observed(Struct, frozen=True):
    """Znodes as read: because a watch fired, because a `Read` asked for them, or while loading."""

    facts: tuple[Fact, ...]


class Surveyed(Struct, frozen=True):
    """Everything that is below a topic's znode.

    Shape:
        In the order in which it can be deleted: children before their parents. Without the topic's own znode.
    """

    topic: TopicName
    found: tuple[tuple[Address, ZnodeVersion], ...]


class ReadRefused(Struct, frozen=True):
    """ZooKeeper does not let us read a znode, or list its children: what was read earlier is all that is known.

    Shape:
        `address` is that of the znode that was to be read; None where its children were.
    """

    path: str
    reason: str
    address: Address | None = None


class ReadAllowed(Struct, frozen=True):
    """What was refused earlier has been read, or is gone."""

    path: str


class QuotasRead(Struct, frozen=True):
    """What limits changes of topics has been read, because a term begins or somebody has set it; None: nothing."""

    rates: tuple[tuple[QuotaEntity, float | None], ...]


class Loaded(Struct, frozen=True):
    """Everything has been observed once and is being watched."""


class Committed(Struct, frozen=True):
    """ZooKeeper accepted the whole transaction, at this zxid."""

    commit: CommitId
    zxid: Zxid


class Conflicted(Struct, frozen=True):
    """ZooKeeper refused the transaction: a znode was not at the version expected; nothing of it was written."""

    commit: CommitId
    address: Address
    reason: str


class Fenced(Struct, frozen=True):
    """ZooKeeper refused the transaction: another controller has raised the controller epoch."""

    commit: CommitId


class Unknown(Struct, frozen=True):
    """The connection was lost before ZooKeeper answered; the transaction may have been written or not."""

    commit: CommitId


class Acknowledged(Struct, frozen=True):
    """A broker answered a command.

    `errors` names the partitions that were refused; all others were accepted where `error` is NONE.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    command: Command
    error: ErrorCode
    errors: dict[TopicPartition, ErrorCode] = {}


class Asked(Struct, frozen=True):
    """Somebody sent a request over the Kafka protocol."""

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
    """A broker said how large its replicas are; those it does not have are missing. `error` is why it did not say."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    sizes: dict[TopicPartition, ReplicaSize]
    error: str | None = None


class ClockShown(Struct, frozen=True):
    """What a clock on the wall shows now, in Unix milliseconds; it may be set while a term lasts."""

    unix_ms: int


class Alarm(Struct, frozen=True):
    """What somebody wants to be woken for; each duty has types of its own. An equal one set again replaces it."""


class Again(Alarm, frozen=True):
    """There is more to decide than one turn may take: take another one."""


class Woke(Struct, frozen=True):
    """An alarm set with `Wake` rang."""

    alarm: Alarm


class ResignationAsked(Struct, frozen=True):
    """The process must end: decide nothing new, and say when nothing is in flight any more."""


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
    | ClockShown
    | Woke
    | ResignationAsked
)
