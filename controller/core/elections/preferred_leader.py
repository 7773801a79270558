"""Should leadership return to the first replica of a partition?

Source: Kafka's PartitionLeaderElectionAlgorithms.preferredReplicaPartitionLeaderElection and
KafkaController.checkAndTriggerAutoLeaderRebalance; KAFKA-9866 (only if that replica is in sync) and KAFKA-10149 (moves
of other partitions do not block it).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.state.remembered import Numbers
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Next, raised
from zk_layout.ids import BrokerId, TopicPartition


def next_step(case: Case, cluster: Cluster) -> Next:
    """Make the first replica leader if that was requested and it is in sync; the ISR stays."""
    state = case.state
    if state is None or case.at not in cluster.preferring or case.assignment.is_moving:
        return None
    preferred = case.assignment.replicas[0]
    if state.leader == preferred or preferred not in state.isr or not cluster.is_online(preferred, case.at):
        return None
    why = f"{preferred} is the preferred leader of {case.at}: it takes over from {state.leader}"
    return Change(why, state=raised(state, cluster.controller_epoch, preferred))


def unbalanced(cluster: Cluster, led_by_others: Numbers, percentage: int) -> Iterator[TopicPartition | None]:
    """The partitions of brokers that lead too few of those they are preferred for.

    Shape:
        There may be as many as there are partitions. So that a caller may stop at any time, and go on later, None
        stands for a partition that was only looked at.

    Units:
        `percentage` is Kafka's `leader.imbalance.per.broker.percentage`: the share that other brokers may lead.
    """
    by_preferred: dict[BrokerId, list[TopicPartition]] = {}
    for name in sorted(led_by_others):
        for number in sorted(led_by_others.get(name, ())):
            at = TopicPartition(name, number)
            held = cluster.partition(at)
            if held is not None and not held.assignment.is_moving:
                by_preferred.setdefault(held.assignment.replicas[0], []).append(at)
            yield None
    for broker, partitions in sorted(by_preferred.items()):
        if cluster.is_live(broker) and 100 * len(partitions) > percentage * cluster.preferred_counts[broker]:
            yield from partitions
