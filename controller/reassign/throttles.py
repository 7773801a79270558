"""Which settings throttle a reassignment, and on which brokers and topics?

Source: Kafka's ReassignPartitionsCommand, `calculateProposedMoveMap` and what follows from it; KIP-73.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from controller.reassign.cluster import Configured, Kind, Move, Settings
from controller.reassign.plans import Replica
from zk_layout.ids import BrokerId, Replicas, TopicName, TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class Copying(Struct, frozen=True):
    """Between which brokers one partition is copied."""

    sources: frozenset[BrokerId]
    destinations: frozenset[BrokerId]


def copying(
    moves: Mapping[TopicPartition, Move],
    targets: Mapping[TopicPartition, Replicas],
    current: Mapping[TopicPartition, Replicas],
) -> dict[TopicPartition, Copying]:
    """Covers moves in progress and new ones: a partition that is already moving keeps its first sources.

    Shape:
        `current` has every partition of `targets`.
    """
    found = {at: Copying(frozenset(move.original), frozenset(move.adding)) for at, move in moves.items()}
    for at, target in targets.items():
        sources = found[at].sources if at in found else frozenset(current[at])
        found[at] = Copying(sources, frozenset(target) - sources)
    return found


def throttle_replication(copied: Mapping[TopicPartition, Copying], bytes_per_second: int) -> dict[Configured, Settings]:
    """The throttled replicas by topic, and the rate by broker."""
    leaders: dict[TopicName, list[str]] = defaultdict(list)
    followers: dict[TopicName, list[str]] = defaultdict(list)
    brokers: set[BrokerId] = set()
    for at, between in sorted(copied.items()):
        leaders[at.topic] += [f"{at.partition}:{broker}" for broker in between.sources]
        followers[at.topic] += [f"{at.partition}:{broker}" for broker in between.destinations]
        brokers |= between.sources | between.destinations
    changes: dict[Configured, Settings] = {
        Configured(Kind.TOPIC, topic): {
            LEADER_REPLICAS: ",".join(sorted(leaders[topic])),
            FOLLOWER_REPLICAS: ",".join(sorted(followers[topic])),
        }
        for topic in leaders
    }
    rate = str(bytes_per_second)
    for broker in sorted(brokers):
        changes[Configured(Kind.BROKER, str(broker))] = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
    return changes


def throttle_log_dirs(replicas: Iterable[Replica], bytes_per_second: int) -> dict[Configured, Settings]:
    """The rate at which brokers move these replicas between their directories."""
    brokers = sorted({replica.broker for replica in replicas})
    return {Configured(Kind.BROKER, str(broker)): {LOG_DIR_RATE: str(bytes_per_second)} for broker in brokers}


def unthrottle(brokers: Collection[BrokerId], topics: Collection[TopicName]) -> dict[Configured, Settings]:
    """The settings that remove all of the above."""
    changes: dict[Configured, Settings] = {
        Configured(Kind.BROKER, str(broker)): {LEADER_RATE: None, FOLLOWER_RATE: None, LOG_DIR_RATE: None}
        for broker in sorted(brokers)
    }
    for topic in sorted(topics):
        changes[Configured(Kind.TOPIC, topic)] = {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}
    return changes
