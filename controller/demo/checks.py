"""What must be true when the move is over?"""

from __future__ import annotations

from contextlib import suppress

from controller.demo.move import has_arrived
from controller.demo.report import Check
from controller.demo.traffic import Traffic
from controller.demo.waiting import wait_for
from controller.demo.znodes import Plan, Znodes
from controller.lab.cluster import LocalCluster
from controller.lab.errors import LabError
from controller.lab.tools import ToolResult

_SETTLED_WITHIN_S = 20.0


def of_records(traffic: Traffic, found: set[int]) -> list[Check]:
    """Whether every acknowledged record was found and reached the consumer."""
    missing = traffic.acknowledged - found
    unheard = traffic.acknowledged - traffic.consumed
    total = len(traffic.acknowledged)
    return [
        Check("records were produced", total > 0 and traffic.trouble is None, traffic.trouble or f"{total:,}"),
        Check("no acknowledged record is lost", not missing, f"{len(missing)} of {total:,} are missing"),
        Check("the consumer got each one", not unheard, f"{len(unheard)} of {total:,} were not consumed"),
        Check("no record was refused", not traffic.refused, ", ".join(sorted(set(traffic.refused.values())))),
    ]


def of_verification(result: ToolResult, partitions: int) -> Check:
    """Whether Kafka's tool reports every partition's move as over."""
    completed = sum(is_completion(line) for line in result.output.splitlines())
    found = f"{completed} of {partitions} completed"
    return Check("kafka-reassign-partitions --verify agrees", completed == partitions, found)


def is_completion(line: str) -> bool:
    """Whether a line of `--verify` reports one partition as done, in any version's words.

    >>> is_completion("Reassignment of partition orders-0 completed successfully")
    True
    >>> is_completion("Reassignment of partition orders-0 is completed.")
    True
    >>> is_completion("Reassignment of partition orders-0 is still in progress.")
    False
    """
    return line.startswith("Reassignment of partition ") and "complete" in line


def of_znodes(znodes: Znodes, topic: str, plan: Plan) -> list[Check]:
    """Whether ZooKeeper has the target for each partition, all in sync, and nothing moves in any topic."""
    with suppress(LabError):
        wait_for(lambda: has_arrived(znodes.partitions(topic), plan), "the target", timeout_s=_SETTLED_WITHIN_S)
    moving = [
        f"{name}-{partition}"
        for name, found in znodes.topics().items()
        for partition, assignment in found.partitions.items()
        if assignment.is_moving
    ]
    return [
        Check(
            "each partition has its target replicas, all in sync", has_arrived(znodes.partitions(topic), plan), topic
        ),
        Check("adding and removing replicas are empty everywhere", not moving, ", ".join(moving) or "every topic"),
        Check("no move of an old tool is left over", not znodes.has_legacy_move(), "/admin/reassign_partitions"),
    ]


def of_disks(cluster: LocalCluster, znodes: Znodes) -> list[Check]:
    """Whether each broker keeps exactly the replicas that ZooKeeper assigns to it, without leftovers.

    What a broker is about to delete counts until it is gone: give brokers a short `log.segment.delete.delay.ms`.
    """
    with suppress(LabError):
        wait_for(lambda: not _strays(cluster, znodes), "clean disks", timeout_s=_SETTLED_WITHIN_S)
    found = _strays(cluster, znodes)
    return [Check("no broker keeps a stray replica, none lacks one", not found, "; ".join(found) or "all disks")]


def _strays(cluster: LocalCluster, znodes: Znodes) -> list[str]:
    wanted: dict[int, set[str]] = {broker: set() for broker in cluster.brokers}
    for name, topic in znodes.topics().items():
        for partition, assignment in topic.partitions.items():
            for replica in assignment.replicas:
                wanted.setdefault(replica, set()).add(f"{name}-{partition}")
    found = []
    for broker_id, broker in cluster.brokers.items():
        kept = {folder.name for folder in broker.log_dir.iterdir() if folder.is_dir()}
        found += [f"broker {broker_id} keeps {name}" for name in sorted(kept - wanted[broker_id])]
        found += [f"broker {broker_id} lacks {name}" for name in sorted(wanted[broker_id] - kept)]
    return found
