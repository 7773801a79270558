"""Does the number of znodes asked for at once follow the sizes that come back?"""

from hypothesis import given
from hypothesis import strategies as st

from controller.zk.bulk import ChunkSize


@given(st.integers(1, 2_000_000))
def test_answers_of_even_znodes_come_near_the_target_and_stay_there(znode_bytes: int) -> None:
    size = ChunkSize(target_bytes=1_000_000, most=1_000, first=16)
    for _ in range(20):
        size.saw(size.now, size.now * znode_bytes)
    assert size.now == max(1, min(1_000, 1_000_000 // znode_bytes))


@given(st.lists(st.integers(0, 5_000_000)))
def test_one_answer_never_asks_for_more_than_double_or_less_than_one(sizes: list[int]) -> None:
    size = ChunkSize(most=1_000)
    for size_bytes in sizes:
        before = size.now
        size.saw(before, size_bytes)
        assert 1 <= size.now <= min(2 * before, 1_000)


def test_an_empty_answer_says_nothing() -> None:
    size = ChunkSize(first=16)
    size.saw(0, 0)
    assert size.now == 16
