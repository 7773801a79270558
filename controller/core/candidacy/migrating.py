"""In which phase is a migration to KRaft, as far as ZooKeeper shows it?

Source: Kafka's KRaftMigrationDriver and KafkaZkClient.tryRegisterKRaftControllerAsActiveController (KIP-866).
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from zk_layout.codec import Malformed
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.migration import Migration


class MigrationPhase(StrEnum):
    """The phases, in the order in which a migration passes through them; the last two are no part of one."""

    NONE = "none"  # no KRaft controller has been here
    WAITING = "waiting"  # a quorum has started, and waits until every broker has joined it
    COPYING = "copying"  # a KRaft controller holds `/controller` and reads everything from ZooKeeper
    DUAL_WRITE = "dual write"  # it leads, and writes to ZooKeeper what it writes to its own log
    LEFT_OVER = "left over"  # a former migration has left its progress behind, and no KRaft controller leads
    UNREADABLE = "unreadable"  # `/migration` holds what no KRaft controller can read

    @property
    def is_led_by_kraft(self) -> bool:
        """Whether a KRaft controller leads."""
        return self in (MigrationPhase.COPYING, MigrationPhase.DUAL_WRITE)


def migration_phase(
    holder: ControllerClaim | Malformed | None, progress: Migration | Malformed | None
) -> MigrationPhase:
    """The phase that `/controller` and `/migration` show. A finished migration looks like dual write for ever.

    >>> kraft, copied = ControllerClaim(3000, kraft_epoch=5), Migration(3000, 5, 812, 5)
    >>> migration_phase(kraft, copied).value, migration_phase(None, copied).value
    ('dual write', 'left over')
    """
    is_led = isinstance(holder, ControllerClaim) and holder.kraft_epoch is not None
    match progress:
        case Malformed():
            return MigrationPhase.UNREADABLE
        case None:
            return MigrationPhase.COPYING if is_led else MigrationPhase.NONE
        case Migration():
            if is_led:
                return MigrationPhase.DUAL_WRITE if progress.has_copied else MigrationPhase.COPYING
            return MigrationPhase.LEFT_OVER if progress.has_copied else MigrationPhase.WAITING
        case _:
            assert_never(progress)
