"""Logs are read with every kind of transaction and every kind of damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops
from zk_layout.storage.log_index import Index, Indexer
from zk_layout.storage.operations import Row
from zk_layout.storage.txnlog import Records, rows_of

THREE = [zk.header(z, ops.SET_DATA) + zk.set_data(f"/t{z}", b"x" * z, z) for z in (1, 2, 3)]


def read(content: bytes, piece: int = 1 << 20, offset: int = 0, stop: int | None = None) -> tuple[list[Row], list[str]]:
    records = Records("log.1", offset, stop)
    rows: list[Row] = []
    for at in range(offset, len(content), piece):
        rows += rows_of(records.feed(content[at : at + piece]), "log.1", records.damage)
        if records.is_done:
            break
    rows += rows_of(records.finish(), "log.1", records.damage)
    return rows, [f"{d.offset} {d.what}" for d in records.damage]


def only(body: bytes) -> Row:
    rows, damage = read(zk.log(body))
    assert not damage
    (row,) = rows
    return row


def index(content: bytes, step: int, piece: int = 1 << 20) -> Index:
    indexer = Indexer("log.1", step)
    for at in range(0, len(content), piece):
        indexer.feed(content[at : at + piece])
    return indexer.result()


def zxids(rows: list[Row]) -> list[int]:
    return [row[0] for row in rows]


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (ops.CREATE, zk.create("/a", b"d", cversion=4), ("/a", b"d", 4, 0)),
        (ops.CREATE2, zk.create("/a", None, ephemeral=True), ("/a", None, 1, 77)),
        (ops.CREATE, zk.create_v0("/a", b"d"), ("/a", b"d", -1, 0)),
        (ops.CREATE_CONTAINER, zk.create_container("/c"), ("/c", b"", 1, -(2**63))),
        (ops.CREATE_TTL, zk.create_ttl("/t", 5000), ("/t", b"", 1, -(2**56) + 5000)),
        (ops.DELETE, zk.delete("/a/b"), ("/a/b", None, 0, 0)),
        (ops.DELETE_CONTAINER, zk.delete("/c"), ("/c", None, 0, 0)),
        (ops.SET_DATA, zk.set_data("/a", b"new", 7), ("/a", b"new", 7, 0)),
        (
            ops.RECONFIG,
            zk.set_data("/zookeeper/config", b"server.1", 2),
            ("/zookeeper/config", b"server.1", 2, 0),
        ),
        (ops.SET_ACL, zk.set_acl("/a", 3), ("/a", None, 3, 0)),
        (ops.CREATE_SESSION, zk.number(30000), ("", None, 30000, 0)),
        (ops.CLOSE_SESSION, b"", ("", None, 0, 0)),
    ],
)
@pytest.mark.parametrize("trailer", [b"", zk.digest(-5)], ids=["no digest", "digest"])
def test_every_kind_of_transaction_is_read(kind: int, body: bytes, expected: object, trailer: bytes) -> None:
    if kind == ops.CREATE and body == zk.create_v0("/a", b"d") and trailer:
        pytest.skip("servers that write no cversion write no digest")

    row = only(zk.header(5, kind) + body + trailer)

    assert row[:7] == (5, 1_700_000_000_000, 77, 1, kind, 0, kind)
    assert (row[7], row[8], row[9], row[10]) == expected
    assert row[12] is None


def test_an_error_says_its_code() -> None:
    assert only(zk.header(5, ops.ERROR) + zk.number(-101))[12] == -101


def test_a_multi_gives_one_row_for_each_part() -> None:
    body = zk.multi((ops.CHECK, zk.check("/e", 3)), (ops.CREATE, zk.create("/a")), (ops.DELETE, zk.delete("/b")))

    rows, _ = read(zk.log(zk.header(5, ops.MULTI) + body + zk.digest(1)))

    assert [(r[4], r[5], r[6], r[7]) for r in rows] == [(14, 0, 13, "/e"), (14, 1, 1, "/a"), (14, 2, 2, "/b")]


def test_no_part_of_a_failed_multi_took_effect() -> None:
    body = zk.multi(
        (ops.CREATE, zk.create("/a")), (ops.ERROR, zk.number(-103)), (ops.SET_DATA, zk.set_data("/b", b"", 1))
    )

    rows, _ = read(zk.log(zk.header(5, ops.MULTI) + body))

    assert [r[12] for r in rows] == [0, -103, -2]


def failed_multi(*marked: int) -> bytes:
    """A multi whose third part failed; the server logged the `marked` parts after it had made errors of them."""
    parts = [(ops.CREATE, zk.create("/a/b")), (ops.SET_DATA, zk.set_data("/a", b"y", 1)), (ops.ERROR, zk.number(-103))]
    parts.append((ops.ERROR, zk.number(-2)))
    return zk.header(5, ops.MULTI) + zk.multi(
        *((ops.ERROR if n in marked else op, body) for n, (op, body) in enumerate(parts))
    )


@pytest.mark.parametrize("marked", [(), (0,), (1,), (0, 1)])
def test_a_failed_multi_that_a_server_logged_after_it_had_applied_it_reads_the_same(marked: tuple[int, ...]) -> None:
    rows, damage = read(zk.log(failed_multi(*marked)))

    assert not damage
    assert [(r[5], r[7], r[12]) for r in rows] == [(0, "/a/b", 0), (1, "/a", 0), (2, "", -103), (3, "", -2)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (failed_multi(), failed_multi(0, 1)),
        (failed_multi(0), failed_multi(1) + zk.digest(1)),
        (zk.header(5, ops.CLOSE_SESSION), zk.header(5, ops.CLOSE_SESSION) + zk.closed("/a") + zk.digest(1)),
        (
            zk.header(5, ops.SET_DATA) + zk.set_data("/a", b"", 1),
            zk.header(5, ops.SET_DATA) + zk.set_data("/a", b"", 1) + zk.digest(1),
        ),
        (
            zk.header(5, ops.CREATE_SESSION) + zk.number(9),
            zk.header(5, ops.CREATE_SESSION) + zk.number(9) + zk.digest(1),
        ),
        (zk.header(5, 99), zk.header(5, 99) + zk.digest(1)),
        (zk.header(5, ops.SET_DATA) + b"\0", zk.header(5, ops.SET_DATA) + b"\0\1"),
    ],
    ids=["types", "some types", "closed session", "digest", "digest of a session", "unknown type", "cut short"],
)
def test_what_depends_on_the_server_is_not_agreed_on(one: bytes, other: bytes) -> None:
    assert ops.agreed(one) == ops.agreed(other)


@pytest.mark.parametrize(
    "other",
    [
        zk.multi((ops.CHECK, zk.check("/a", 2)), (ops.DELETE, zk.delete("/a"))),
        zk.multi((ops.CHECK, zk.check("/a", 1)), (ops.DELETE_CONTAINER, zk.delete("/a"))),
        zk.multi((ops.CHECK, zk.check("/a", 1))),
        zk.multi((ops.CHECK, zk.check("/a", 1)), (ops.ERROR, zk.delete("/a"))),
    ],
    ids=["another version", "another type", "a part less", "one that failed"],
)
def test_what_all_servers_log_alike_is_agreed_on(other: bytes) -> None:
    this = zk.multi((ops.CHECK, zk.check("/a", 1)), (ops.DELETE, zk.delete("/a")))

    assert ops.agreed(zk.header(5, ops.MULTI) + this) != ops.agreed(zk.header(5, ops.MULTI) + other)
    assert ops.agreed(failed_multi()) != ops.agreed(failed_multi().replace(b"y", b"z"))


def test_a_closed_session_lists_its_ephemerals() -> None:
    rows, _ = read(zk.log(zk.header(5, ops.CLOSE_SESSION) + zk.closed("/a", "/b") + zk.digest(1)))

    assert [r[7] for r in rows] == ["", "/a", "/b"]


@given(piece=st.integers(1, 200), padding=st.integers(0, 300))
def test_the_size_of_the_pieces_does_not_matter(piece: int, padding: int) -> None:
    content = zk.log(*THREE, padding=padding)

    assert read(content, piece) == read(content)
    assert zxids(read(content)[0]) == [1, 2, 3]
    assert index(content, 1, piece) == index(content, 1)


def test_zeros_written_in_advance_are_no_damage_and_reading_may_go_on_there() -> None:
    records = Records("log.1")
    records.feed(zk.log(*THREE, padding=1000))
    records.finish()

    assert not records.damage
    assert records.offset == len(zk.log(*THREE))


def test_every_split_gives_its_own_records_and_together_all() -> None:
    content = zk.log(*(zk.header(z, ops.DELETE) + zk.delete("/x") for z in range(1, 101)), padding=500)
    found = index(content, 200)

    parts = [zxids(read(content, 64, section.offset, section.end)[0]) for section in found.sections]

    assert len(parts) > 10
    assert [zxid for part in parts for zxid in part] == list(range(1, 101))
    assert [(s.first, s.last, s.count) for s in found.sections] == [(p[0], p[-1], len(p)) for p in parts]
    assert (found.last_zxid, found.end) == (100, len(content) - 500)


@given(piece=st.integers(1, 400), lost=st.integers(1, 50))
def test_a_torn_last_record_is_reported_and_the_rest_read(piece: int, lost: int) -> None:
    rows, damage = read(zk.log(*THREE)[:-lost], piece)

    assert zxids(rows) == [1, 2]
    assert damage == [f"{len(zk.log(*THREE[:2]))} torn record: the file ends inside it"]


def test_a_record_of_which_only_a_part_was_written_before_the_padding_is_reported() -> None:
    content = bytearray(zk.log(*THREE, padding=500))
    end = len(content) - 500
    content[end - 20 : end] = bytes(20)

    rows, damage = read(bytes(content))

    assert zxids(rows) == [1, 2]
    assert damage == [f"{len(zk.log(*THREE[:2]))} torn record: only a part was written before the padding"]


@given(piece=st.integers(1, 400))
def test_a_wrong_checksum_costs_one_record(piece: int) -> None:
    content = bytearray(zk.log(*THREE))
    second = len(zk.log(THREE[0]))
    content[second + 12 + 34] ^= 1

    rows, damage = read(bytes(content), piece)

    assert zxids(rows) == [1, 3]
    assert damage == [f"{second} wrong checksum"]


@given(piece=st.integers(1, 400), flipped=st.integers(0, 31))
def test_a_wrong_length_costs_one_record(piece: int, flipped: int) -> None:
    content = bytearray(zk.log(*THREE, *(zk.header(z, ops.DELETE) + zk.delete("/x") for z in range(4, 20))))
    second = len(zk.log(THREE[0]))
    content[second + 8 + flipped // 8] ^= 1 << flipped % 8

    rows, damage = read(bytes(content), piece)

    assert zxids(rows) == [1, *range(3, 20)]
    assert damage[0].startswith(f"{second} ")


@given(piece=st.integers(1, 400))
def test_a_hole_of_zeros_in_the_middle_hides_only_what_it_covers(piece: int) -> None:
    content = bytearray(zk.log(*THREE))
    second, third = len(zk.log(THREE[0])), len(zk.log(*THREE[:2]))
    content[second:third] = bytes(third - second)

    rows, damage = read(bytes(content), piece)

    assert zxids(rows) == [1, 3]
    assert len(damage) == 1
    assert damage[0].startswith(f"{second} ")


def test_an_empty_file_is_reported() -> None:
    for content in (b"", bytes(8), bytes(1000)):
        rows, damage = read(content)
        assert (rows, len(damage)) == ([], 1)


def test_a_foreign_file_is_reported_not_read() -> None:
    rows, damage = read(b"PAR1" + bytes(range(256)) * 4)

    assert not rows
    assert damage == ["0 not a transaction log: it does not start with ZKLG"]


def test_a_transaction_of_an_unknown_type_is_reported_and_the_rest_read() -> None:
    rows, damage = read(zk.log(THREE[0], zk.header(2, 99) + zk.delete("/x"), THREE[2]))

    assert zxids(rows) == [1, 3]
    assert damage == [f"{len(zk.log(THREE[0]))} there is no transaction of type 99"]


@given(st.binary(max_size=300), st.integers(1, 100))
def test_no_bytes_make_the_reader_fail(noise: bytes, piece: int) -> None:
    read(zk.LOG_HEADER + noise, piece)
    read(zk.log(zk.header(1, ops.MULTI) + noise), piece)
    read(zk.log(zk.header(1, ops.CREATE) + noise), piece)
    read(zk.log(zk.header(1, ops.CLOSE_SESSION) + noise), piece)
