"""How far has a KRaft quorum come with taking over the cluster: `/migration`?

Source: Kafka's MigrationZNode, ZkMigrationLeadershipState and KRaftMigrationDriver (3.4 to 3.9).
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from zk_layout.codec import encode_json, json_decoder

NOTHING_COPIED = -1


class MigrationAddress(Struct, frozen=True, gc=False):
    """The progress of a migration to KRaft; it exists from the first start of a KRaft controller on."""

    path: ClassVar[str] = "/migration"


class Migration(Struct, frozen=True):
    """The KRaft controller that wrote it last, its epoch, and up to where ZooKeeper holds what the quorum's log holds.

    >>> decode(b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":5,"kraft_metadata_offset":-1,'
    ...        b'"kraft_metadata_epoch":-1}').has_copied
    False
    """

    kraft_controller_id: int
    kraft_controller_epoch: int
    kraft_metadata_offset: int = NOTHING_COPIED
    kraft_metadata_epoch: int = NOTHING_COPIED

    @property
    def has_copied(self) -> bool:
        """Whether a quorum has copied everything from ZooKeeper. A KRaft controller then copies nothing again."""
        return self.kraft_metadata_offset > 0


decode = json_decoder(Migration)
"""The progress; other bytes, also none, are `Undecodable`: Kafka's KRaft controllers fail on them, too."""


def encode(migration: Migration) -> bytes:
    """As Kafka's KRaft controllers write it."""
    return encode_json(
        {
            "version": 0,
            "kraft_controller_id": migration.kraft_controller_id,
            "kraft_controller_epoch": migration.kraft_controller_epoch,
            "kraft_metadata_offset": migration.kraft_metadata_offset,
            "kraft_metadata_epoch": migration.kraft_metadata_epoch,
        }
    )
