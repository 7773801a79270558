"""What does a partition's state znode say: who leads, and which replicas are in sync?

Source: Kafka's TopicPartitionStateZNode.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from zk_layout.bounds import Brokers, Leader, RaisableEpoch, WriterEpoch
from zk_layout.codec import encode_json, json_decoder
from zk_layout.ids import PartitionId, TopicName
from zk_layout.znodes.topics import ROOT

RECOVERED = 0
RECOVERING = 1


class PartitionsAddress(Struct, frozen=True, gc=False):
    """The parent of a topic's partition znodes; carries no data."""

    topic: TopicName

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{ROOT}/{self.topic}/partitions"


class PartitionAddress(Struct, frozen=True, gc=False):
    """The parent of one partition's state; carries no data."""

    topic: TopicName
    partition: PartitionId

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{ROOT}/{self.topic}/partitions/{self.partition}"


class StateAddress(Struct, frozen=True, gc=False):
    """The state of one partition."""

    topic: TopicName
    partition: PartitionId

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{ROOT}/{self.topic}/partitions/{self.partition}/state"


class PartitionState(Struct, frozen=True, gc=False):
    """Leader (-1: none), its epoch, the epoch of the controller that last wrote it, and the ISR.

    Shape:
        `isr` keeps ZooKeeper's order, has no duplicates and is never empty.
    """

    leader: Leader
    leader_epoch: RaisableEpoch
    controller_epoch: WriterEpoch
    isr: Brokers
    leader_recovery_state: Annotated[int, Meta(ge=RECOVERED, le=RECOVERING)] = RECOVERED


_decoder = json_decoder(PartitionState)


def decode(data: bytes) -> PartitionState:
    """The state as its last writer, a controller or an old leader, left it.

    >>> decode(b'{"version":1,"leader":1,"leader_epoch":4,"controller_epoch":9,"isr":[1,2]}').isr
    (1, 2)

    Raises:
        Undecodable: not a partition state's JSON.
    """
    return _decoder(data)


def encode(state: PartitionState) -> bytes:
    """The recovery state is written only while recovering, as Kafka does.

    >>> encode(PartitionState(1, 4, 9, (1, 2)))
    b'{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}'
    """
    json: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
    }
    if state.leader_recovery_state != RECOVERED:
        json["leader_recovery_state"] = state.leader_recovery_state
    return encode_json(json)
