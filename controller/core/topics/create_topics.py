"""May this topic be created, and on which brokers?

A policy in Kafka's `create.topic.policy.class.name` cannot be evaluated, since no Java class runs here: with such a
policy, only the topics that brokers create for themselves are created.

Source: Kafka's ZkAdminManager.createTopics and AdminZkClient.validateTopicCreate, with their order of checks; KIP-464
(defaults), KIP-525 (the answer's contents).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import DEFAULTED, CreateTopics, NewTopic
from controller.core.seeded_random import SeededRandom
from controller.core.settings import TopicDefaults
from controller.core.state import topic_names
from controller.core.state.view import Cluster
from controller.core.steps.change import listed
from controller.core.topics import configs
from controller.core.topics.placement import Start, spread
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName
from zk_layout.znodes.topics import Assignment

MOST_PARTITIONS = 200_000
FORBIDDEN = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
MADE_BY_BROKERS = frozenset({TopicName("__consumer_offsets"), TopicName("__transaction_state")})
INTERNAL_TO_KRAFT = TopicName("__cluster_metadata")


class Plan(Struct, frozen=True):
    """A topic that may be created as described."""

    assignments: dict[PartitionId, Assignment]
    config: dict[str, str]

    @property
    def replication_factor(self) -> int:
        """The number of replicas of each partition."""
        return len(self.assignments[PartitionId(0)].replicas)


def refuse_within(request: CreateTopics) -> list[Refusal | None]:
    """The refusal of each topic that follows from the request alone."""
    counts = Counter(topic.name for topic in request.topics)
    return [_refuse_alone(topic, counts[topic.name]) for topic in request.topics]


def _refuse_alone(topic: NewTopic, count: int) -> Refusal | None:
    if topic.name == INTERNAL_TO_KRAFT:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {INTERNAL_TO_KRAFT} is prohibited.")
    if count > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
    return None


def refuse_name(name: TopicName) -> Refusal | None:
    """The reason why no topic may have this name."""
    problem = topic_names.problem_of(name)
    return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem) if problem is not None else None


def consider(
    wanted: NewTopic, alike: Iterable[TopicName], defaults: TopicDefaults, cluster: Cluster, random: SeededRandom
) -> Plan | Refusal:
    """The topic to create, or the reason to refuse it.

    Shape:
        `alike` are topics, existing or about to be created, whose names look the same in metrics.
    """
    if wanted.name in cluster.topics:
        return already_exists(wanted.name)
    without_value = [name for name, value in wanted.configs if value is None]
    if without_value:
        text = f"Null value not supported for topic configs: {','.join(without_value)}"
        return Refusal(ErrorCode.INVALID_CONFIG, text)
    placed = _place(wanted, defaults, cluster, random)
    if isinstance(placed, Refusal):
        return placed
    collision = topic_names.collision(wanted.name, alike)
    if collision is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, collision)
    problem = _problem_of(placed, cluster) if wanted.assignments else None  # our own placement is sound
    if problem is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    config = {name: value for name, value in wanted.configs if value is not None}
    problem = configs.problem_of(config)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_CONFIG, problem)
    return Plan({number: Assignment(replicas) for number, replicas in sorted(placed)}, config)


def refuse_unjudged(name: TopicName, policy: str) -> Refusal | None:
    """Refuse a topic that a policy would have to judge."""
    if not policy or name in MADE_BY_BROKERS:
        return None
    text = f"New topics are judged by {policy} (create.topic.policy.class.name), a Java class that cannot run in this"
    hint = "create the topic while a broker is the controller, or set create.topic.policy.ignore=true"
    return Refusal(ErrorCode.POLICY_VIOLATION, f"{text} controller: {hint}.")


def already_exists(name: TopicName) -> Refusal:
    """The refusal for a name in use: a topic exists until its deletion has ended."""
    return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def candidates(cluster: Cluster) -> dict[BrokerId, str | None]:
    """The brokers on which replicas may be placed, by id, with their racks: all live ones, never controllers."""
    return {broker: cluster.brokers[broker].registration.rack for broker in cluster.live_brokers()}


def refuse_unstorable(count: int, factor: int, most_bytes: int) -> Refusal | None:
    """Refuse, before the slow placement of so many replicas, a topic that no znode can hold."""
    if count <= 0 or least_bytes(count, factor) <= most_bytes:
        return None
    text = f"{count} partitions take more than the {most_bytes} bytes that the topic's znode may have"
    hint = "ask for fewer, or raise jute.maxbuffer on the ZooKeeper servers and here"
    return Refusal(ErrorCode.INVALID_PARTITIONS, f"{text}: {hint}.")


def least_bytes(count: int, factor: int) -> int:
    """The least bytes that this many partitions take in a topic's znode.

    >>> least_bytes(3, 2), len('"0":[1,2],"1":[1,2],"2":[1,2],')
    (30, 30)

    Source: the JSON of a topic's znode, with brokers of one digit.
    """
    digits, lowest = count, 10
    while lowest < count:
        digits += count - lowest
        lowest *= 10
    return count * (5 + 2 * max(factor, 1)) + digits


def too_many(count: int) -> Refusal:
    """Refuse more partitions than Kafka supports in a whole cluster; their placement alone would take seconds."""
    text = f"{count} partitions are more than the {MOST_PARTITIONS} that one topic may have."
    return Refusal(ErrorCode.INVALID_PARTITIONS, text)


def _place(
    wanted: NewTopic, defaults: TopicDefaults, cluster: Cluster, random: SeededRandom
) -> list[tuple[PartitionId, Replicas]] | Refusal:
    if wanted.assignments:
        if wanted.partition_count != DEFAULTED or wanted.replication_factor != DEFAULTED:
            text = "Both numPartitions or replicationFactor and replicasAssignments were set."
            return Refusal(ErrorCode.INVALID_REQUEST, f"{text} Both cannot be used at the same time.")
        return list(wanted.assignments)
    count = defaults.partition_count if wanted.partition_count == DEFAULTED else wanted.partition_count
    factor = defaults.replication_factor if wanted.replication_factor == DEFAULTED else wanted.replication_factor
    brokers = candidates(cluster)
    if count <= 0:
        return Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if factor <= 0:
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > len(brokers):
        text = f"Replication factor: {factor} larger than available brokers: {len(brokers)}."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if count > MOST_PARTITIONS:
        return too_many(count)
    if None in brokers.values():
        brokers = dict.fromkeys(brokers)  # racks count only if every broker has one
    start = Start(random.below(len(brokers)), random.below(len(brokers)))
    return list(spread(brokers, count, factor, start).items())


def _problem_of(placed: list[tuple[PartitionId, Replicas]], cluster: Cluster) -> str | None:
    """The mistake in a given assignment. Like Kafka, accepts brokers that are down or unknown; no controllers or
    negative ids.
    """
    if len({len(replicas) for _, replicas in placed}) != 1 or not placed[0][1]:
        return "All partitions should have the same number of replicas, at least one"
    for number, replicas in placed:
        if len(set(replicas)) < len(replicas):
            return f"Duplicate replica assignment found: partition {number} on {listed(replicas)}"
        if not cluster.controllers.keys().isdisjoint(replicas) or min(replicas) < 0:
            return f"Partition {number} cannot be placed on {listed(replicas)}: not all of them are brokers"
    if sorted(number for number, _ in placed) != list(range(len(placed))):
        return "partitions should be a consecutive 0-based integer sequence"
    return None
