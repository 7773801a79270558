"""Is the cluster on its way to KRaft, and must this process make way for it?

A KRaft quorum waits until every process in `/brokers/ids` and every broker with replicas has joined it, and a leading
replica is registered there. It begins with the last broker; so that is the moment at which a replica makes way.
Afterwards a KRaft controller leads, until it is rolled back.

Source: Kafka's KRaftMigrationDriver.areZkBrokersReadyForMigration (KIP-866).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from controller.core.candidacy.migrating import MigrationPhase
from controller.preflight.findings import Check, Finding, named, not_registered, stop, warning
from controller.preflight.sightings import Seen, Wanted
from zk_layout.ids import BrokerId

ENABLED = "zookeeper.metadata.migration.enable"
_GUIDE = "docs/kraft.md"


def migration(_: Wanted, seen: Seen) -> Iterator[Finding]:
    """Forbid a claim while KRaft leads, or waits for this process alone; name every other sign of a migration."""
    check = Check.MIGRATION
    match seen.migration:
        case MigrationPhase.NONE:
            return
        case MigrationPhase.COPYING | MigrationPhase.DUAL_WRITE:
            text = f"a KRaft controller leads (migration phase: {seen.migration})"
            hint = f"after a roll-back this replica claims again; once the migration is finalized, stop it ({_GUIDE})"
            yield stop(check, text, hint)
        case MigrationPhase.WAITING:
            yield _waiting(seen)
        case MigrationPhase.LEFT_OVER:
            text = (
                "a former migration to KRaft has left /migration behind: the next quorum would not copy from ZooKeeper"
            )
            yield warning(check, f"{text}, and delete topics that it does not know", f"delete it ({_GUIDE})")
        case MigrationPhase.UNREADABLE:
            yield warning(check, "no KRaft controller can read /migration", f"delete it ({_GUIDE})")
        case _:
            assert_never(seen.migration)


def _waiting(seen: Seen) -> Finding:
    check, registered = Check.MIGRATION, seen.brokers.keys()
    others = unready(seen)
    away = sorted((others | seen.hosts) - seen.migrating - registered)
    if seen.brokers and not (others or away):
        text = f"every broker has {ENABLED}, and the KRaft quorum waits for replicas of this controller to go"
        return stop(check, text, f"a native controller leads until KRaft does ({_GUIDE})")
    lacking = []
    if missing := sorted(others & registered):
        lacking.append(f"{ENABLED} is not known to be set on {named(missing)}")
    if away:
        lacking.append(not_registered(away))
    text = f"a KRaft quorum waits for the brokers (migration phase: {seen.migration})"
    hint = f"this replica makes way once it is set on all ({_GUIDE})"
    return warning(check, "; ".join([text, *(lacking or ["no broker is registered"])]), hint)


def unready(seen: Seen) -> frozenset[BrokerId]:
    """The brokers that are registered, or were until recently, and are not known to wait for a quorum."""
    return (seen.staying | seen.brokers.keys()) - seen.migrating
