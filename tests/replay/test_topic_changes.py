"""Decoding only the differences gives the same as decoding everything."""

from __future__ import annotations

import json
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.replay.events.topic_changes import TopicContent
from zk_layout.codec import Undecodable
from zk_layout.ids import BrokerId, PartitionId
from zk_layout.znodes import topics
from zk_layout.znodes.topics import Assignment, Topic

replicas = st.lists(st.integers(0, 120), max_size=4, unique=True).map(tuple)
assignments = st.builds(Assignment, replicas, replicas, replicas)
numbers = st.integers(0, 30).map(PartitionId)
contents = st.dictionaries(numbers, assignments, max_size=12)
orders = st.randoms(use_true_random=False)


def written(partitions: dict[PartitionId, Assignment], rng: Random | None = None, *, spaced: bool = False) -> bytes:
    items = list(partitions.items())
    if rng is not None:
        rng.shuffle(items)
    data = topics.encode(Topic(dict(items)))
    return json.dumps(json.loads(data)).encode() if spaced else data


def decoded(partitions: dict[PartitionId, Assignment]) -> dict[PartitionId, Assignment]:
    """The content of the whole znode, without invalid moves."""
    return topics.decode(written(partitions)).partitions


@given(st.lists(st.tuples(contents, st.none() | orders, st.booleans()), max_size=8))
def test_the_changes_of_each_write_add_up_to_its_content(
    writes: list[tuple[dict[PartitionId, Assignment], Random | None, bool]],
) -> None:
    topic = TopicContent()
    held: dict[PartitionId, Assignment] = {}
    for partitions, order, spaced in writes:
        before = dict(held)
        for partition, assignment in topic.change_to(written(partitions, order, spaced=spaced)).items():
            assert assignment != before.get(partition)
            if assignment is None:
                del held[partition]
            else:
                held[partition] = assignment

        assert held == decoded(partitions)


@given(contents, numbers, assignments)
def test_one_partition_changed_is_one_change(
    partitions: dict[PartitionId, Assignment], partition: PartitionId, new: Assignment
) -> None:
    topic = TopicContent()
    topic.change_to(written(partitions))

    changed = topic.change_to(written({**partitions, partition: new}))

    before, after = decoded(partitions), decoded({**partitions, partition: new})
    assert changed == ({} if before.get(partition) == after[partition] else {partition: after[partition]})


def test_a_malformed_write_changes_nothing() -> None:
    topic = TopicContent()
    topic.change_to(b'{"partitions":{"0":[1]}}')

    for malformed in (b"{", b'{"partitions":{"0":["x"]}}'):
        with pytest.raises(Undecodable):
            topic.change_to(malformed)
    assert topic.change_to(b'{"partitions":{"0":[1]}}') == {}
    assert msgspec.to_builtins(topic.change_to(b'{"partitions":{"0":[2]}}')[PartitionId(0)])["replicas"] == (2,)


def test_what_kafka_passes_over_is_passed_over_between_clean_writes() -> None:
    topic = TopicContent()
    topic.change_to(b'{"partitions":{"0":[1]}}')

    for number, odd in enumerate((b"%s}", b"\xef\xbb\xbf%s", b'%s","partitions":{"7":[1]}}'), start=2):
        changed = topic.change_to(odd % (b'{"partitions":{"0":[%d]}}' % number))
        assert changed == {PartitionId(0): Assignment((BrokerId(number),))}
    assert topic.change_to(b'{"partitions":{"0":[4]}}') == {}
