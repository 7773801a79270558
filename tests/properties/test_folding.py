"""Facts fold to the same cluster in whatever order they come, and the indexes say what a slow count says."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from controller.core.view import Cluster
from tests.properties.clusters import BROKERS, OWN_ID, TOPIC, assignments, registration, state, topic
from zk_layout.facts import Fact, absent
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

START = {PartitionId(p): Assignment((BrokerId(1),)) for p in range(3)}


def _topic_facts() -> st.SearchStrategy[Fact]:
    partitions = st.fixed_dictionaries({PartitionId(p): assignments() for p in range(3)})
    return st.builds(topic, partitions, st.integers(20, 99))


def _state_facts() -> st.SearchStrategy[Fact]:
    return st.builds(
        lambda leader, epoch, zxid, partition: state(
            PartitionState(leader, LeaderEpoch(epoch), ControllerEpoch(1), (leader,)), zxid, partition
        ),
        st.sampled_from(BROKERS),
        st.integers(0, 5),
        st.integers(20, 99),
        st.integers(0, 2),
    )


def _broker_facts() -> st.SearchStrategy[Fact]:
    comes = st.builds(registration, st.sampled_from(BROKERS), st.integers(20, 99))
    goes = st.builds(
        lambda broker, zxid: absent(BrokerAddress(broker), Zxid(zxid)),
        st.sampled_from(BROKERS),
        st.integers(20, 99),
    )
    return comes | goes


def _facts() -> st.SearchStrategy[list[Fact]]:
    """Sightings of some znodes, at most one of each znode at each zxid."""
    return st.lists(
        _topic_facts() | _state_facts() | _broker_facts(),
        max_size=12,
        unique_by=lambda fact: (fact.address.path, fact.as_of),
    )


def _fold(facts: list[Fact]) -> Cluster:
    cluster = Cluster(OWN_ID, ControllerEpoch(1))
    cluster.apply(topic(START, 10))
    for fact in facts:
        cluster.apply(fact)
    return cluster


def _picture(cluster: Cluster) -> object:
    held = cluster.topics[TOPIC]
    partitions = {n: (p.assignment, p.state, p.epoch) for n, p in sorted(held.partitions.items())}
    return partitions, sorted(cluster.brokers), sorted(held.partitions), cluster.partition_count


@given(_facts(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(facts: list[Fact], random: Random) -> None:
    shuffled = list(facts)
    random.shuffle(shuffled)

    in_order = _fold(sorted(facts, key=lambda fact: fact.as_of))

    assert _picture(_fold(shuffled)) == _picture(in_order)


@given(_facts())
def test_seeing_something_again_changes_nothing(facts: list[Fact]) -> None:
    cluster = _fold(facts)
    picture = _picture(cluster)
    cluster.take_changes()

    for fact in facts:
        cluster.apply(fact)

    assert _picture(cluster) == picture
    assert not cluster.take_changes().partitions


@given(_facts())
def test_the_indexes_say_what_a_slow_count_says(facts: list[Fact]) -> None:
    cluster = _fold(facts)
    held = cluster.topics[TOPIC].partitions

    slow_hosted = {broker: {n for n, p in held.items() if broker in p.assignment.replicas} for broker in BROKERS}
    for broker in BROKERS:
        assert cluster.hosted.get(broker, {}).get(TOPIC, set()) == slow_hosted[broker]
    counts = Counter(r for p in held.values() for r in p.assignment.replicas)
    assert {b: c for b, c in cluster.replica_counts.items() if c} == dict(counts)
    assert cluster.moving.get(TOPIC, set()) == {n for n, p in held.items() if p.assignment.is_moving}
    assert cluster.partition_count == sum(bool(p.assignment.replicas) for p in held.values())
