"""Is a partition seen alike, whether it is looked at alone or with all of its topic?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.core.announcing.views import view, views_of
from tests.properties.clusters import BROKERS, TOPIC, Situation, situations, topic
from zk_layout.ids import BrokerId, PartitionId, TopicPartition

FIRST = PartitionId(0)


@given(situations(), st.sets(st.sampled_from(BROKERS)))
def test_a_partition_is_seen_alike_alone_and_with_all_of_its_topic(situation: Situation, failed: set[BrokerId]) -> None:
    term = situation.term()
    for broker in failed:
        term.memory.brokers.fail_replica(TopicPartition(TOPIC, FIRST), broker)
    seen = term.cluster.topics[TOPIC]
    alone = view(seen, FIRST, seen.partitions[FIRST], situation.state, term.cluster)

    assert views_of(seen, [FIRST], term.cluster) == [alone]


@given(situations())
def test_a_partition_without_state_is_left_out(situation: Situation) -> None:
    term = situation.term()
    term.fold(topic({FIRST: situation.assignment, PartitionId(1): situation.assignment}, 12))
    seen = term.cluster.topics[TOPIC]

    assert [v.partition for v in views_of(seen, [FIRST, PartitionId(1)], term.cluster)] == [FIRST]
