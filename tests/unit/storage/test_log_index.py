"""An index that leaps over large data says what one says that is given every byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops
from zk_layout.storage.log_index import Index, Indexer

TOPIC = b'{"partitions":{%s}}'


def set_data(path: str, size: int, zxid: int) -> bytes:
    return zk.header(zxid, ops.SET_DATA, time_ms=zxid * 10) + zk.set_data(path, TOPIC % (b"x" * size), zxid)


def fenced(path: str, size: int, zxid: int) -> bytes:
    """As a controller writes; with a small topic before the large one."""
    parts = (
        (ops.CHECK, zk.check("/controller_epoch", 2)),
        (ops.SET_DATA, zk.set_data("/brokers/topics/small", TOPIC % b"", zxid)),
        (ops.SET_DATA, zk.set_data(path, TOPIC % (b"x" * size), zxid)),
    )
    return zk.header(zxid, ops.MULTI, time_ms=zxid * 10) + zk.multi(*parts)


def of_every_byte(content: bytes) -> Index:
    indexer = Indexer(5000)
    indexer.feed(content)
    return indexer.result()


def of_what_is_wanted(content: bytes, piece: int) -> tuple[Index, int]:
    indexer = Indexer(5000, may_leap=True)
    taken = 0
    while chunk := content[indexer.wanted : indexer.wanted + piece]:
        taken += len(chunk)
        if not indexer.feed(chunk):
            break
    return indexer.result(), taken


writes = st.tuples(
    st.sampled_from([set_data, fenced]),
    st.sampled_from(["/brokers/topics/t", "/kafka/brokers/topics/u", "/x", "/brokers/topics/t/partitions/0/state"]),
    st.integers(0, 9000),
)


@given(st.lists(writes, min_size=1, max_size=12), st.integers(1, 4000), st.integers(0, 5000))
def test_leaping_changes_nothing(made: list[tuple[object, str, int]], piece: int, padding: int) -> None:
    bodies = [write(path, size, zxid) for zxid, (write, path, size) in enumerate(made, 1)]  # type: ignore[operator]
    content = zk.log(*bodies, padding=padding)
    whole, (leapt, _) = of_every_byte(content), of_what_is_wanted(content, piece)

    assert (leapt.splits, leapt.last_zxid, leapt.last_time_ms, leapt.end, leapt.count) == (
        whole.splits, whole.last_zxid, whole.last_time_ms, whole.end, whole.count,
    )  # fmt: skip
    # The text that marks a topic's data is not looked for in what is leapt over, the path alone decides.
    assert set(whole.topics) <= set(leapt.topics)


@pytest.mark.parametrize("lost", [1, 2, 5000, 99_000])
def test_a_record_that_ends_behind_the_file_is_not_counted(lost: int) -> None:
    content = zk.log(set_data("/brokers/topics/t", 100, 1), set_data("/brokers/topics/t", 100_000, 2))[:-lost]

    leapt, _ = of_what_is_wanted(content, 500)

    assert (leapt.count, leapt.last_zxid, [w.offset for w in leapt.topics]) == (1, 1, [16])


def test_a_wrong_end_of_a_large_record_stops_the_index() -> None:
    content = bytearray(zk.log(set_data("/brokers/topics/t", 100_000, 1), set_data("/brokers/topics/t", 100, 2)))
    content[content.index(b"}}", 90_000) + 6] = 0x43  # the letter B behind data and version

    leapt, _ = of_what_is_wanted(bytes(content), 500)

    assert leapt.count == 0


def test_most_of_a_large_record_is_not_even_read() -> None:
    content = zk.log(*(fenced("/brokers/topics/t", 100_000, zxid) for zxid in range(1, 11)))

    leapt, taken = of_what_is_wanted(content, 1000)

    assert leapt.count == 10
    assert taken < len(content) / 20
