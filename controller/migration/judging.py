"""Which questions are asked, in which order?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.migration import in_zookeeper, on_brokers
from controller.migration.findings import Finding, Result
from controller.migration.sightings import Seen

QUESTIONS: tuple[Callable[[Seen], Iterable[Finding]], ...] = (
    in_zookeeper.phase,
    in_zookeeper.migration_znode,
    in_zookeeper.own_replicas,
    in_zookeeper.brokers,
    on_brokers.unanswered,
    on_brokers.protocol,
    on_brokers.settings,
    on_brokers.node_ids,
    on_brokers.reserved_ids,
    on_brokers.control_plane,
    on_brokers.authorizer,
    on_brokers.message_format,
    on_brokers.log_directories,
    in_zookeeper.moves,
    in_zookeeper.deletions,
    in_zookeeper.topics,
    in_zookeeper.partitions,
    in_zookeeper.epochs,
    in_zookeeper.producer_ids,
    on_brokers.encrypted,
    in_zookeeper.users,
    on_brokers.clients,
    in_zookeeper.finalizing,
)


def judge(seen: Seen) -> tuple[Finding, ...]:
    """All findings, in the order in which an operator would look."""
    return tuple(finding for question in QUESTIONS for finding in question(seen))


def worst(findings: Iterable[Finding]) -> Result:
    """The gravest result.

    >>> worst([])
    <Result.OK: 'ok'>
    """
    order = list(Result)
    return max((finding.result for finding in findings), key=order.index, default=Result.OK)
