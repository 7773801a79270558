"""Do partitions with the same replicas share one value, without keeping what is not shared?"""

from __future__ import annotations

import pytest

from zk_layout.ids import PartitionId
from zk_layout.znodes import topics
from zk_layout.znodes.topics import Assignment, Topic, assigned

RESTING = Assignment((1, 2))  # type: ignore[arg-type]  # brokers are ints here
MOVING = Assignment((3, 1, 2), (3,), (1,))  # type: ignore[arg-type]


def decoded(*partitions: Assignment) -> list[Assignment]:
    topic = Topic({PartitionId(number): assignment for number, assignment in enumerate(partitions)})
    return list(topics.decode(topics.encode(topic)).partitions.values())


@pytest.mark.parametrize("others", [(), (MOVING,)], ids=["nothing moves", "something moves"])
def test_partitions_with_the_same_replicas_are_one_value(others: tuple[Assignment, ...]) -> None:
    one, other, *_ = decoded(RESTING, RESTING, *others)
    another, *_ = decoded(RESTING)

    assert one is other is another
    assert one == RESTING


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_MOST_ALIKE", 10)
    every = [Assignment((number, number + 1)) for number in range(25)]  # type: ignore[arg-type]

    assert decoded(*every) == every
    assert len(topics._alike) <= 10


def test_what_counts_of_a_move_is_the_same_however_it_is_found_out() -> None:
    for adding in ((), (3,), (4,), (3, 4)):
        for removing in ((), (1,), (3,), (1, 2, 3), (4,)):
            made = assigned((3, 1, 2), adding, removing)  # type: ignore[arg-type]
            sound = (
                tuple(r for r in adding if r in (3, 1, 2) and r not in removing),
                tuple(r for r in removing if r in (3, 1, 2) and r not in adding),
            )
            is_left = set(sound[1]) != {1, 2, 3}
            assert (made.adding, made.removing) == (sound if is_left else ((), ()))
