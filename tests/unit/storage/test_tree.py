"""What does a tree hold after some transactions, even if one is applied twice, and what does that mean to Kafka?"""

from __future__ import annotations

import pytest

from zk_layout.facts import Fact
from zk_layout.storage import operations as ops
from zk_layout.storage.cluster_facts import facts, facts_of
from zk_layout.storage.jute import OPEN_ACL
from zk_layout.storage.operations import Row
from zk_layout.storage.tree import Change, Tree
from zk_layout.znodes.topics import Topic

SESSION = 0x1234
TOPIC = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'


def row(
    zxid: int, op: int, path: str = "", data: bytes | None = None, version: int = 0, failed: int | None = None
) -> Row:
    owner = SESSION if path.startswith("/session") and op in (ops.CREATE, ops.CREATE2) else 0
    return (zxid, 1000 + zxid, SESSION, 0, op, 0, op, path, data, version, owner, OPEN_ACL, failed)


def grown(*rows: Row) -> Tree:
    tree = Tree()
    for one in rows:
        tree.apply(one)
    return tree


def test_a_new_znode_shows_in_its_parent_too() -> None:
    tree = Tree()

    changes = tree.apply(row(5, ops.CREATE, "/a", b"x", version=1))

    node = tree.nodes["/a"]
    assert changes == [Change("/a", None, node)]
    assert (node.data, node.czxid, node.mzxid, node.version, node.ctime_ms) == (b"x", 5, 5, 0, 1005)
    assert (tree.nodes["/"].cversion, tree.nodes["/"].pzxid, tree.last_zxid) == (1, 5, 5)


def test_a_change_keeps_when_it_was_created_and_a_deletion_tells_what_was() -> None:
    tree = grown(row(5, ops.CREATE2, "/a", b"x", version=ops.UNKNOWN_PARENT_CVERSION))

    (changed,) = tree.apply(row(6, ops.SET_DATA, "/a", b"y", version=1))
    (deleted,) = tree.apply(row(7, ops.DELETE, "/a"))

    assert changed.was is not None
    assert changed.now is not None
    assert (changed.was.data, changed.now.data, changed.now.czxid, changed.now.mzxid) == (b"x", b"y", 5, 6)
    assert deleted == Change("/a", changed.now, None)
    assert (tree.nodes["/"].cversion, tree.nodes["/"].pzxid) == (1, 7)


@pytest.mark.parametrize(
    "again",
    [
        row(5, ops.CREATE, "/a", b"x", version=1),
        row(7, ops.DELETE, "/gone"),
        row(7, ops.SET_DATA, "/gone", b"?"),
        row(7, ops.SET_ACL, "/gone", version=3),
        row(8, ops.CREATE, "/gone/child", b"?", version=1),
        row(8, ops.DELETE, "/gone/child"),
        row(9, ops.CHECK, "/a", version=9),
        row(9, ops.SET_DATA, "/a", b"?", version=9, failed=-101),
    ],
    ids=lambda again: f"{ops.NAMES[again[6]]} {again[7]}",
)
def test_what_is_shown_already_or_has_failed_changes_nothing(again: Row) -> None:
    tree = grown(row(5, ops.CREATE, "/a", b"x", version=1), row(6, ops.SET_DATA, "/a", b"y", version=1))

    assert tree.apply(again) == []

    assert tree.nodes["/a"].data == b"y"
    assert "/gone" not in tree.nodes
    assert tree.last_zxid == max(6, again[0])


def test_a_session_takes_its_znodes_with_it_whether_the_log_lists_them_or_not() -> None:
    def living() -> Tree:
        return grown(
            row(1, ops.CREATE_SESSION, version=30_000),
            row(2, ops.CREATE, "/session-b", version=1),
            row(3, ops.CREATE, "/session-a", version=2),
            row(4, ops.CREATE, "/stays", version=3),
            row(5, ops.CREATE, "/session-c", version=4),
            row(6, ops.DELETE, "/session-c"),
        )

    tree, listed = living(), living()
    assert tree.sessions == {SESSION: 30_000}
    assert tree.ephemerals(SESSION) == {"/session-a", "/session-b"}

    by_itself = tree.apply(row(9, ops.CLOSE_SESSION))
    named = [c for path in ("/session-a", "/session-b") for c in listed.apply(row(9, ops.CLOSE_SESSION, path))]

    assert [change.path for change in by_itself] == [change.path for change in named] == ["/session-a", "/session-b"]
    assert tree.sessions == {}
    assert "/stays" in tree.nodes
    assert not tree.ephemerals(SESSION) | listed.ephemerals(SESSION)


def test_an_acl_is_replaced_and_nothing_that_counts_has_changed() -> None:
    tree = grown(row(5, ops.CREATE, "/a", b"x", version=1))

    assert tree.apply((6, 1006, SESSION, 0, ops.SET_ACL, 0, ops.SET_ACL, "/a", None, 1, 0, b"acl", None)) == []

    assert (tree.nodes["/a"].acl, tree.nodes["/a"].aversion, tree.nodes["/a"].version) == (b"acl", 1, 0)


def test_a_snapshot_is_a_tree_with_its_sessions() -> None:
    rows = [
        ("/", b"", 1, 0, 0, 0, 0, 0, 1, 0, 0, 3),
        ("/session", b"x", 2, 3, 4, 10, 11, 1, 0, 0, SESSION, 3),
    ]

    tree = Tree.of_snapshot(rows, {1: b"acl"}, {SESSION: 30_000}, 7)

    assert (tree.nodes["/"].acl, tree.nodes["/session"].acl) == (b"acl", OPEN_ACL)
    assert (tree.nodes["/session"].czxid, tree.nodes["/session"].mzxid, tree.last_zxid) == (3, 4, 7)
    assert tree.ephemerals(SESSION) == {"/session"}
    assert tree.sessions == {SESSION: 30_000}


def test_facts_are_those_below_the_chroot_that_kafka_knows() -> None:
    tree = grown(
        row(1, ops.CREATE, "/kafka", version=1),
        row(2, ops.CREATE, "/kafka/brokers", version=1),
        row(3, ops.CREATE, "/kafka/brokers/topics", version=1),
        row(4, ops.CREATE, "/kafka/brokers/topics/orders", TOPIC, version=1),
        row(5, ops.CREATE, "/controller_epoch", b"7", version=2),
    )
    path = "/brokers/topics/orders"

    shown = list(facts_of(tree, "/kafka"))
    gone = list(facts(tree.apply(row(6, ops.DELETE, f"/kafka{path}")), 6, "/kafka"))

    assert [fact.address.path for fact in shown] == [path]
    assert isinstance(shown[0].value, Topic)
    assert (stat := shown[0].stat) is not None
    assert (stat.czxid, stat.mzxid, stat.version, stat.owner) == (4, 4, 0, 0)
    assert gone == [Fact(shown[0].address, None, None, gone[0].as_of)]
    assert gone[0].as_of == 6
    assert [fact.value for fact in facts_of(tree)] == [7]
