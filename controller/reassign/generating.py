"""Which assignment would spread these topics over these brokers? Only proposes it.

Source: Kafka's ReassignPartitionsCommand, `generateAssignment`.
"""

from __future__ import annotations

from random import Random

from msgspec import Struct

from controller.core.topics.placement import Start, Unspreadable, spread
from controller.reassign.answer import Answer
from controller.reassign.cluster import Cluster, unfit
from controller.reassign.input_file import File
from controller.reassign.plans import as_plan, as_plan_json, read_brokers, read_topics
from controller.reassign.refusals import Refused
from zk_layout.ids import BrokerId, Replicas, TopicPartition


class Proposal(Struct, frozen=True):
    """What to propose."""

    topics_file: File
    broker_list: str
    is_rack_aware: bool = True


def generate(cluster: Cluster, asked: Proposal, answer: Answer, random: Random) -> None:
    """Print the present assignment and a proposed one.

    Raises:
        Stopped: an unknown topic or broker, or too few brokers for the replicas there are.
    """
    brokers = read_brokers(asked.broker_list)
    names = read_topics(asked.topics_file.read_bytes(), asked.topics_file.name)
    topics = cluster.topics(names)
    if lost := [name for name in names if name not in topics]:
        raise Refused("\n".join(f"Topic {name} not found." for name in lost))
    racks = _racks(cluster, brokers, is_rack_aware=asked.is_rack_aware)
    current: dict[TopicPartition, Replicas] = {}
    proposed: dict[TopicPartition, Replicas] = {}
    for name, partitions in sorted(topics.items()):
        current |= {TopicPartition(name, p): state.replicas for p, state in partitions.items()}
        replication_factor = len(partitions[min(partitions)].replicas)
        start = Start(random.randrange(len(racks)), random.randrange(len(racks)))
        try:
            placed = spread(racks, len(partitions), replication_factor, start)
        except Unspreadable as error:
            raise Refused(f"{name}: {error}") from None
        proposed |= {TopicPartition(name, p): replicas for p, replicas in placed.items()}
    answer.say(f"Current partition replica assignment\n{as_plan_json(current)}\n")
    answer.say(f"Proposed partition reassignment configuration\n{as_plan_json(proposed)}")
    answer.document |= {"current": as_plan(current), "proposed": as_plan(proposed)}


def _racks(cluster: Cluster, brokers: Replicas, *, is_rack_aware: bool) -> dict[BrokerId, str | None]:
    nodes = cluster.nodes()
    if reasons := unfit(brokers, nodes):
        raise Refused("\n".join(reasons))
    racks = {broker: nodes[broker].rack if is_rack_aware else None for broker in brokers}
    if None in racks.values() and set(racks.values()) != {None}:
        raise Refused(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    return racks
