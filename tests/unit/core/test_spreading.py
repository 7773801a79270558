"""Replicas of new partitions are spread over brokers and racks as Kafka's brokers and tools spread them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.topics.placement import Start, Unspreadable, spread

racks_of_brokers = st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(lambda racks: dict(enumerate(racks)))


def test_without_racks_the_table_of_kafkas_documentation_comes_out() -> None:
    placed = dict(sorted(spread(dict.fromkeys(range(5)), 10, 3, Start(0, 0)).items()))

    assert list(placed.values())[:6] == [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1), (0, 2, 3)]


def test_partitions_that_are_added_take_the_numbers_after_the_first_ones() -> None:
    assert list(spread(dict.fromkeys(range(4)), 2, 2, Start(2, 1), first=7)) == [7, 8]


@given(racks=racks_of_brokers, partitions=st.integers(1, 20), data=st.data())
def test_brokers_are_distinct_leaders_even_and_every_rack_is_used_before_one_is_used_twice(
    racks: dict[int, str], partitions: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, len(racks)))
    start = Start(data.draw(st.integers(0, len(racks) - 1)), data.draw(st.integers(0, 50)))

    placed = spread(racks, partitions, replication_factor, start)

    assert set(placed) == set(range(partitions))
    led = [sum(replicas[0] == broker for replicas in placed.values()) for broker in racks]
    assert max(led) - min(led) <= 1
    for replicas in placed.values():
        assert len(set(replicas)) == replication_factor
        assert len({racks[b] for b in replicas}) == min(replication_factor, len(set(racks.values())))


@pytest.mark.parametrize(
    ("racks", "partitions", "replication_factor", "reason"),
    [
        ({1: None, 2: None}, 1, 3, "larger than available brokers: 2"),
        ({1: None}, 0, 1, "Number of partitions must be larger than 0"),
        ({1: None}, 1, 0, "Replication factor must be larger than 0"),
        ({1: "a", 2: None}, 1, 1, "Not all brokers have rack information"),
    ],
)
def test_what_cannot_be_spread_is_refused_with_the_reason(
    racks: dict[int, str | None], partitions: int, replication_factor: int, reason: str
) -> None:
    with pytest.raises(Unspreadable, match=reason):
        spread(racks, partitions, replication_factor, Start(0, 0))
