"""Which partitions are being moved, and where to: the children of `/admin/reassignments`?

Source: KIP-236 "Proposed Changes": `/admin/reassignments/mytopic-42` holds `{"version":1,"assignment":[10,11,15]}`.
What the folder itself holds is ours.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import Struct

from zk_layout.bounds import Brokers, WriterEpoch
from zk_layout.codec import Undecodable, encode_version_1, json_decoder
from zk_layout.ids import ControllerEpoch, PartitionId, TopicName

ROOT: Final = "/admin/reassignments"


class ReassignmentsAddress(Struct, frozen=True, gc=False):
    """The folder."""

    path: ClassVar[str] = ROOT


class ReassignmentAddress(Struct, frozen=True, gc=False):
    """The move of one partition; its name is divided at the last dash, for topics may contain dashes."""

    topic: TopicName
    partition: PartitionId

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{ROOT}/{self.topic}-{self.partition}"


class FolderKeeper(Struct, frozen=True):
    """Which term kept the folder equal to the moves in progress last."""

    controller_epoch: WriterEpoch = ControllerEpoch(-1)


class Reassignment(Struct, frozen=True):
    """The replicas a partition is to have."""

    assignment: Brokers


class _Json(Struct):
    assignment: Brokers
    version: Literal[1] = 1


_decoder = json_decoder(_Json)
_keeper_decoder = json_decoder(FolderKeeper)


def decode(data: bytes) -> Reassignment | None:
    """Where a partition must go; None where nothing has been written yet, as by a tool that creates first.

    >>> decode(b'{"version":1,"assignment":[10,11,15]}')
    Reassignment(assignment=(10, 11, 15))

    Raises:
        Undecodable: not JSON with a list `assignment`, or of another version.
    """
    return Reassignment(_decoder(data).assignment) if data else None


def encode(reassignment: Reassignment) -> bytes:
    """As KIP-236 shows it.

    >>> encode(Reassignment((10, 11, 15)))
    b'{"version":1,"assignment":[10,11,15]}'
    """
    return encode_version_1(reassignment)


def decode_keeper(data: bytes) -> FolderKeeper:
    """The last keeper; nobody where the folder holds something else."""
    try:
        return _keeper_decoder(data)
    except Undecodable:
        return FolderKeeper()


def encode_keeper(keeper: FolderKeeper) -> bytes:
    """The last keeper."""
    return encode_version_1(keeper)
