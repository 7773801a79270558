"""Facts fold to the same state in whatever order they come, and the indexes say what a slow count says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from controller.core.state.cluster import ClusterState
from tests.properties.clusters import BROKERS
from tests.properties.histories import ADDRESSES, IDS, NAMES, ZooKeeper, histories, picture
from zk_layout.facts import Fact
from zk_layout.ids import BrokerId, TopicPartition
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress

LONG_HISTORIES = 900
A_BATCH = 100
OF_A_TOPIC = TopicAddress | StateAddress


def _long_history(random: Random, length: int) -> list[Fact]:
    moments = [(random.randrange(len(ADDRESSES)), random.randrange(8)) for _ in range(length)]
    return ZooKeeper().live_through(moments)


def _fold(facts: Iterable[Fact]) -> ClusterState:
    state = ClusterState()
    state.apply_all(facts)
    return state


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(facts: list[Fact], random: Random) -> None:
    some = random.sample(facts, random.randint(len(facts) // 2, len(facts)))
    in_order = sorted(some, key=lambda fact: (fact.as_of, fact.is_present))

    assert picture(_fold(some)) == picture(_fold(in_order))


def _everything(state: ClusterState) -> str:
    """In the order in which it is kept, with what has changed and what of it cannot be read."""
    told = asdict(state.take_changes()).items()
    return repr((picture(state), [*told], vars(state.writer_epochs), state.unreadable, vars(state.placement)))


def _as_read(fact: Fact) -> tuple[str, bool]:
    """A topic before its states, and these in a row."""
    address = fact.address
    return (address.topic, isinstance(address, StateAddress)) if isinstance(address, OF_A_TOPIC) else ("", False)


@pytest.mark.parametrize("seed", range(0, LONG_HISTORIES, A_BATCH))
def test_many_facts_at_once_are_folded_as_one_after_the_other(seed: int) -> None:
    for random in map(Random, range(seed, seed + A_BATCH)):
        facts = _long_history(random, random.randint(2, 120))
        some = random.sample(facts, random.randint(1, len(facts)))
        if random.random() < 0.8:
            some.sort(key=_as_read)
        singly, at_once = ClusterState(), ClusterState()
        for fact in some:
            singly.apply(fact)
        at_once.apply_all(some)

        assert _everything(at_once) == _everything(singly), some


@pytest.mark.parametrize("seed", range(0, LONG_HISTORIES, A_BATCH))
def test_the_order_does_not_matter_in_long_histories_either(seed: int) -> None:
    for random in map(Random, range(seed, seed + A_BATCH)):
        facts = _long_history(random, random.randint(2, 120))
        some = random.sample(facts, random.randint(len(facts) // 2, len(facts)))
        in_order = sorted(some, key=lambda fact: (fact.as_of, fact.is_present))

        assert picture(_fold(some)) == picture(_fold(in_order)), some


@given(histories(), st.randoms(use_true_random=False))
def test_seeing_something_again_changes_nothing(facts: list[Fact], random: Random) -> None:
    state = _fold(facts)
    before = picture(state)
    state.take_changes()

    state.apply_all(random.sample(facts, len(facts)))

    assert picture(state) == before
    changes = state.take_changes()
    assert not changes.partitions
    assert not changes.gone_topics
    assert not changes.brokers
    assert not changes.malformed
    assert not changes.isr_changes


def _moves(state: ClusterState) -> tuple[Counter[tuple[BrokerId, TopicPartition]], ...]:
    """By broker, the partitions that moves add to it, and that they remove from it, as the index has them."""
    indexes = state.placement.adding, state.placement.removing
    return tuple(Counter((broker, at) for broker, moves in index.items() for at in moves) for index in indexes)


def _moves_recounted(state: ClusterState) -> tuple[Counter[tuple[BrokerId, TopicPartition]], ...]:
    """The same from all partitions."""
    moving = [
        (TopicPartition(name, number), held.assignment)
        for name, view in state.topics.views.items()
        for number, held in view.partitions.items()
        if not view.is_queued_for_deletion
    ]
    adding = Counter((broker, at) for at, assignment in moving for broker in assignment.adding)
    return adding, Counter((broker, at) for at, assignment in moving for broker in assignment.removing)


@pytest.mark.parametrize("seed", range(0, LONG_HISTORIES, A_BATCH))
def test_after_every_fact_each_broker_has_the_moves_that_a_recount_finds(seed: int) -> None:
    for random in map(Random, range(seed, seed + A_BATCH)):
        facts = _long_history(random, random.randint(2, 60))
        state = ClusterState()
        for fact in random.sample(facts, len(facts)):
            state.apply(fact)
            if random.random() < 0.1:
                _put_back(state, random)
            assert _moves(state) == _moves_recounted(state), facts
        while state.let_go(5):
            pass
        assert not any(_moves(state)), facts


def _put_back(state: ClusterState, random: Random) -> None:
    """What the znode of some topic says of a partition is replaced by an assignment from before."""
    views = [view for view in state.topics.views.values() if view.partitions]
    if views:
        view = random.choice(views)
        donor = random.choice(list(random.choice(views).partitions.values()))
        state.topics.put_back(view.name, random.choice(list(view.partitions)), donor.assignment)


@given(histories(), st.randoms(use_true_random=False))
def test_the_indexes_say_what_a_slow_count_says(facts: list[Fact], random: Random) -> None:
    state = _fold(random.sample(facts, len(facts)))
    views, placement = state.topics.views, state.placement
    listed = [(t, n, p) for t, view in views.items() for n, p in view.partitions.items() if p.assignment.replicas]
    owed = [(t, n, replicas) for t, view in views.items() for n, replicas in view.deletions.items()]

    for broker in BROKERS:
        hosted = {(t, n) for t, numbers in placement.hosted.get(broker, {}).items() for n in numbers}
        owing = {(t, n) for t, numbers in placement.owing.get(broker, {}).items() for n in numbers}
        assert hosted == {(t, n) for t, n, p in listed if broker in p.assignment.replicas}
        assert owing == {(t, n) for t, n, replicas in owed if broker in replicas}
    counts = Counter(r for _, _, p in listed for r in p.assignment.replicas)
    preferred = Counter(p.assignment.replicas[0] for _, _, p in listed)
    assert {b: c for b, c in placement.replica_counts.items() if c} == dict(counts)
    assert {b: c for b, c in placement.preferred_counts.items() if c} == dict(preferred)
    assert {(t, n) for t, numbers in placement.moving.items() for n in numbers} == {
        (t, n) for t, n, p in listed if p.assignment.is_moving and not views[t].is_queued_for_deletion
    }
    assert _moves(state) == _moves_recounted(state)
    assert placement.partition_count == len(listed)
    assert state.topics.names == {view.topic_id: t for t, view in views.items() if view.topic_id is not None}
    assert {t for names in state.topics.alike.values() for t in names} == set(views)


def test_the_histories_are_worth_shuffling() -> None:
    facts = _long_history(Random(1), 4000)

    assert {type(fact.address) for fact in facts} == {type(address) for address in ADDRESSES}
    topics = [fact for fact in facts if fact.address == TopicAddress(NAMES[0]) and fact.stat is not None]
    assert len({fact.stat.czxid for fact in topics if fact.stat is not None}) > 5
    assert {fact.value.topic_id for fact in topics if isinstance(fact.value, Topic)} >= {None, *IDS}
