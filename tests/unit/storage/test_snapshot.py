"""Snapshots are read in every compression, and their damage is reported."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.storage import zk_files as zk
from zk_layout.storage import snappy
from zk_layout.storage.damage import Unreadable
from zk_layout.storage.jute import OPEN_ACL
from zk_layout.storage.snapshot import SnapshotReader, SnapshotRow

ZNODES = [("/", b""), ("/a", None), ("/a/b", b"data"), ("/zookeeper", b"")]
WHOLE = zk.snapshot(ZNODES, {5: 30000, 6: 40000}, digest_zxid=12, last_zxid=13)


def read(content: bytes, piece: int = 1 << 20) -> tuple[SnapshotReader, list[SnapshotRow]]:
    reader = SnapshotReader("snapshot.9")
    rows: list[SnapshotRow] = []
    for at in range(0, len(content), piece):
        rows += reader.feed(content[at : at + piece])
    reader.finish()
    return reader, rows


@given(piece=st.integers(1, 500))
def test_everything_in_a_snapshot_is_read_whatever_the_pieces(piece: int) -> None:
    reader, rows = read(WHOLE, piece)

    assert [(row[0], row[1]) for row in rows] == ZNODES
    assert rows[2] == ("/a/b", b"data", 1, 9, 9, 10, 20, 3, 4, 5, 0, 9)
    assert reader.sessions == {5: 30000, 6: 40000}
    assert reader.acls == {1: OPEN_ACL}
    assert (reader.digest, reader.last_zxid) == ((12, 2, 123), 13)
    assert reader.is_whole
    assert not reader.damage


@pytest.mark.parametrize(
    ("content", "digest", "last_zxid"),
    [
        (zk.snapshot(ZNODES), None, None),
        (zk.snapshot(ZNODES, digest_zxid=12), (12, 2, 123), None),
    ],
    ids=["3.4 and 3.5", "3.6 and 3.7"],
)
def test_older_servers_end_earlier(content: bytes, digest: object, last_zxid: object) -> None:
    reader, rows = read(content)

    assert len(rows) == len(ZNODES)
    assert (reader.digest, reader.last_zxid, reader.is_whole, reader.damage) == (digest, last_zxid, True, [])


@given(cut=st.integers(1, len(WHOLE) - 1))
def test_what_comes_before_the_end_of_a_short_file_is_read(cut: int) -> None:
    reader, rows = read(WHOLE[:cut])
    ends_like_an_older_server = cut in (len(zk.snapshot(ZNODES, {5: 1, 6: 1})), len(WHOLE) - 21)

    assert rows == read(WHOLE)[1][: len(rows)]
    assert bool(reader.damage) != ends_like_an_older_server


def test_a_changed_byte_is_noticed() -> None:
    content = bytearray(WHOLE)
    content[WHOLE.index(b"data")] ^= 1

    reader, rows = read(bytes(content))

    assert len(rows) == len(ZNODES)
    assert not reader.is_whole
    assert "wrong checksum" in reader.damage[0].what


def test_a_foreign_file_is_reported_not_read() -> None:
    reader, rows = read(zk.log())

    assert not rows
    assert [d.what for d in reader.damage] == ["not a snapshot: it does not start with ZKSN"]


@given(st.binary(max_size=200), st.integers(1, 50))
def test_no_bytes_make_the_reader_fail(noise: bytes, piece: int) -> None:
    read(zk.SNAPSHOT_HEADER + noise, piece)
    read(zk.SNAPSHOT_HEADER + zk.number(0) + zk.number(0) + noise, piece)


@given(content=st.binary(min_size=129, max_size=3000), piece=st.integers(1, 700))
def test_the_framing_of_snappy_java_is_read_from_any_pieces(content: bytes, piece: int) -> None:
    framed = zk.snappy_framed(content)
    chunks = [framed[at : at + piece] for at in range(0, len(framed), piece)]

    assert b"".join(snappy.unframed(chunks)) == content


def test_a_cut_or_foreign_snappy_stream_is_refused() -> None:
    framed = zk.snappy_framed(b"x" * 500)

    with pytest.raises(Unreadable, match="cut short"):
        list(snappy.unframed([framed[:-1]]))
    with pytest.raises(Unreadable, match="does not start"):
        list(snappy.unframed([zlib.compress(framed)]))


@given(st.binary(min_size=1, max_size=100))
def test_no_bytes_make_the_decompression_fail_otherwise(noise: bytes) -> None:
    try:
        snappy.decompress(noise)
    except Unreadable:
        return
