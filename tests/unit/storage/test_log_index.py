"""However the log is damaged, an index finds the same records as a reader, and the writes of whole znodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops
from zk_layout.storage.log_index import Index, Indexer
from zk_layout.storage.operations import zxid_of
from zk_layout.storage.txnlog import Records

TOPIC = b'{"partitions":{%s}}'
STATE = "/brokers/topics/t/partitions/0/state"


def body(kind: int, content: bytes, zxid: int, time_ms: int = 1000) -> bytes:
    return zk.header(zxid, kind, time_ms=time_ms) + content


def fenced(*parts: tuple[int, bytes], zxid: int) -> bytes:
    """A controller's write whose epoch version makes a check look like the type of a deletion."""
    return body(ops.MULTI, zk.multi((ops.CHECK, zk.check("/controller_epoch", 2)), *parts), zxid)


def indexed(content: bytes, step: int = 1 << 30, piece: int = 1 << 20, **more: bool) -> Index:
    indexer = Indexer("log.1", step, **more)
    for at in range(0, len(content), piece):
        indexer.feed(content[at : at + piece])
    return indexer.result()


def written(zxid: int) -> bytes:
    return body(ops.SET_DATA, zk.set_data("/x", b"abc" * (zxid % 7), 1), zxid)


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4),
    st.integers(1, 900),
    st.integers(1, 2000),
    st.integers(0, 300),
)
def test_the_records_of_an_index_are_those_of_a_reader(
    spoilt: list[tuple[int, int]], piece: int, step: int, padding: int
) -> None:
    content = bytearray(zk.log(*map(written, range(1, 40)), padding=padding))
    for at, value in spoilt:
        content[at % len(content)] = value
    records = Records("log.1")
    zxids = [zxid_of(body) for body in (*records.feed(bytes(content)).bodies, *records.finish().bodies)]

    found = indexed(bytes(content), step, piece)

    assert [zxid for s in found.sections for zxid in range(s.first, s.last + 1)] == zxids
    assert list(found.damage) == records.damage
    for section in found.sections:
        part = Records("log.1", section.offset, section.end)
        bodies = part.feed(bytes(content[section.offset :])).bodies
        assert [zxid_of(body) for body in bodies] == [*range(section.first, section.last + 1)]
        assert (part.count, part.damage) == (section.count, [])


def test_a_section_ends_where_zxids_do_not_go_on() -> None:
    found = indexed(zk.log(written(1), written(2), written(4), written(0x100000001)))

    assert [(s.first, s.last) for s in found.sections] == [(1, 2), (4, 4), (0x100000001, 0x100000001)]


def test_times_need_not_rise() -> None:
    found = indexed(zk.log(*(body(ops.DELETE, zk.delete("/x"), z, t) for z, t in ((1, 50), (2, 90), (3, 20), (4, 60)))))

    (section,) = found.sections
    assert (section.from_ms, section.to_ms) == (20, 90)


def test_writes_of_whole_znodes_are_noted_and_their_deletions() -> None:
    topic, legacy = "/kafka/brokers/topics/t", "/admin/reassign_partitions"
    log = zk.log(
        body(ops.CREATE, zk.create(topic, TOPIC % b""), 1),
        body(ops.SET_DATA, zk.set_data("/kafka" + STATE, b'{"leader":1}', 1), 2),
        fenced((ops.SET_DATA, zk.set_data("/x", b"", 2)), (ops.SET_DATA, zk.set_data(topic, TOPIC % b" ", 1)), zxid=3),
        fenced((ops.SET_DATA, zk.set_data("/kafka" + STATE, b"{}", 2)), zxid=4),
        body(ops.CREATE, zk.create(legacy, b"not JSON"), 5),
        fenced((ops.DELETE, zk.delete(legacy)), zxid=6),
        body(ops.DELETE, zk.delete(topic), 7),
        body(ops.DELETE, zk.delete("/kafka" + STATE), 8),
    )

    writes = indexed(log, keep_data=True).writes

    assert [(w.zxid, w.path, w.is_there, w.data) for w in writes] == [
        (1, topic, True, TOPIC % b""),
        (3, topic, True, TOPIC % b" "),
        (5, legacy, True, b"not JSON"),
        (6, legacy, False, None),
        (7, topic, False, None),
    ]
    assert [w.data for w in indexed(log).writes] == [None] * 5


def test_an_index_goes_on_where_an_earlier_one_ended() -> None:
    half = zk.log(written(1), written(2))
    begun = indexed(half + zk.record(written(3))[:20] + bytes(50))
    content = half + zk.record(written(3)) + bytes(50)

    indexer = Indexer("log.1", 1 << 30, offset=begun.end)
    indexer.feed(content[begun.end :])
    more = indexer.result()

    assert begun.end == len(half)
    assert [(s.first, s.last) for s in (*begun.sections, *more.sections)] == [(1, 2), (3, 3)]
    assert (more.end, more.damage) == (len(content) - 50, ())
