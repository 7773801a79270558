"""Are our requests, byte for byte, what kazoo's own would be, and are answers taken apart rightly?"""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol import serialization as kazoo
from kazoo.security import OPEN_ACL_UNSAFE

from controller.zk import protocol
from controller.zk.protocol import Node
from zk_layout.facts import Stat
from zk_layout.ids import SessionId, ZnodeVersion, Zxid

paths = st.text(min_size=1, max_size=30).map(lambda name: "/" + name)
STAT = struct.pack(">qqqqiiiqiiq", 11, 12, 13, 14, 3, 5, 6, 77, 8, 9, 10)
SEEN = Stat(Zxid(11), Zxid(12), ZnodeVersion(3), SessionId(77))


@given(paths, st.binary(max_size=50), st.integers(-1, 1000), st.booleans())
def test_single_requests_are_those_of_kazoo(path: str, data: bytes, version: int, flag: bool) -> None:
    pairs: list[tuple[protocol.Request, Any]] = [
        (protocol.Exists(path, flag), kazoo.Exists(path, flag)),
        (protocol.GetData(path, flag), kazoo.GetData(path, flag)),
        (protocol.GetChildren(path, flag), kazoo.GetChildren(path, flag)),
        (protocol.Create(path, data, flag), kazoo.Create(path, data, OPEN_ACL_UNSAFE, int(flag))),
        (protocol.Create(path, None), kazoo.Create(path, None, OPEN_ACL_UNSAFE, 0)),
        (protocol.SetData(path, data, version), kazoo.SetData(path, data, version)),
        (protocol.Delete(path, version), kazoo.Delete(path, version)),
        (protocol.Check(path, version), kazoo.CheckVersion(path, version)),
    ]
    for ours, theirs in pairs:
        assert ours.type == theirs.type
        assert bytes(ours.serialize()) == bytes(theirs.serialize())


@given(st.lists(st.tuples(paths, st.binary(max_size=20), st.integers(0, 9)), max_size=5))
def test_a_transaction_is_that_of_kazoo(writes: list[tuple[str, bytes, int]]) -> None:
    ours = protocol.transaction(
        op
        for path, data, version in writes
        for op in (protocol.Check(path, version), protocol.Create(path, data), protocol.SetData(path, data, version))
    )
    theirs = kazoo.Transaction(
        [
            op
            for path, data, version in writes
            for op in (
                kazoo.CheckVersion(path, version),
                kazoo.Create(path, data, OPEN_ACL_UNSAFE, 0),
                kazoo.SetData(path, data, version),
            )
        ]
    )
    assert bytes(ours.serialize()) == bytes(theirs.serialize())


def header(kind: int, is_last: bool = False, code: int = -1) -> bytes:
    return struct.pack(">i?i", kind, is_last, code)


def test_an_accepted_transaction_has_one_ok_an_operation() -> None:
    answer = (
        header(13, code=0)
        + header(1, code=0)
        + struct.pack(">i", 5)
        + b"/path"
        + header(5, code=0)
        + STAT
        + header(2, code=0)
        + header(-1, True)
    )
    codes = protocol.Transaction(b"").deserialize(b"xx" + answer, 2)
    assert codes == [0, 0, 0, 0]
    assert protocol.refusal(codes) is None


def test_a_refused_transaction_has_one_reason() -> None:
    answer = b"".join(header(-1, code=c) + struct.pack(">i", c) for c in (0, -103, -2)) + header(-1, True)
    codes = protocol.Transaction(b"").deserialize(answer, 0)
    assert protocol.refusal(codes) == (1, protocol.BAD_VERSION)


def test_a_multi_read_tells_znodes_and_errors_apart() -> None:
    answer = (
        header(4, code=0)
        + struct.pack(">i", 3)
        + b"abc"
        + STAT
        + header(-1, code=-101)
        + struct.pack(">i", -101)
        + header(4, code=0)
        + struct.pack(">i", -1)
        + STAT
        + header(4, code=0)
        + struct.pack(">i", 0)
        + STAT
        + header(-1, True)
    )
    found = protocol.MultiRead(("/a", "/b", "/c", "/d")).deserialize(b"----" + answer, 4)
    assert found == [Node(b"abc", SEEN), protocol.NO_NODE, Node(b"", SEEN), Node(b"", SEEN)]


def test_a_multi_read_asks_for_data_without_watches() -> None:
    assert protocol.MultiRead(("/a",)).serialize() == (
        header(4) + struct.pack(">i", 2) + b"/a" + b"\0" + header(-1, True)
    )


@pytest.mark.parametrize("size", [-1, 0, 4])
def test_single_reads_are_taken_apart(size: int) -> None:
    data = b"data"[: max(size, 0)]
    assert protocol.GetData("/a").deserialize(struct.pack(">i", size) + data + STAT, 0) == Node(data, SEEN)
    assert protocol.Exists("/a").deserialize(STAT, 0) == SEEN
    names = struct.pack(">ii", 2, 1) + b"a" + struct.pack(">i", 2) + "ä".encode()
    assert protocol.GetChildren("/").deserialize(names, 0) == ["a", "ä"]


def test_a_recursive_watch_is_asked_for_and_removed_as_zookeeper_reads_it() -> None:
    add, remove = protocol.AddRecursiveWatch("/a"), protocol.RemoveWatches("/a")

    assert (add.type, add.serialize()) == (106, b"\0\0\0\2/a" + struct.pack(">i", 1))
    assert (remove.type, remove.serialize()) == (18, b"\0\0\0\2/a" + struct.pack(">i", 3))


def test_watches_are_set_by_kind() -> None:
    body = protocol.SetWatches(Zxid(7), data=("/a",), children=("/b", "/c")).serialize()
    two = b"".join(struct.pack(">i", 2) + name for name in (b"/b", b"/c"))
    assert body == struct.pack(">qii", 7, 1, 2) + b"/a" + struct.pack(">ii", 0, 2) + two


def test_a_sync_names_a_path() -> None:
    assert protocol.Sync("/a").serialize() == struct.pack(">i", 2) + b"/a"
