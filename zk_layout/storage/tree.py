"""Which znodes exist after these transactions, and what does each hold?

Applying a transaction again, or to a snapshot that already shows some of its effects, gives the same result
as applying it once: that is why a fuzzy snapshot and the log after it give an exact state.

Source: DataTree.processTxn, createNode, deleteNode, setData, killSession and setCversionPzxid of ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from zk_layout.storage.jute import OPEN_ACL, READ_ACL
from zk_layout.storage.operations import (
    CHECK,
    CLOSE_SESSION,
    CREATE_SESSION,
    CREATIONS,
    DELETE,
    DELETE_CONTAINER,
    RECONFIG,
    SET_ACL,
    SET_DATA,
    UNKNOWN_PARENT_CVERSION,
    Row,
    is_session_owner,
)
from zk_layout.storage.snapshot import SnapshotRow

CHANGES = CREATIONS | {DELETE, DELETE_CONTAINER, SET_DATA, RECONFIG, SET_ACL, CLOSE_SESSION}


class Node(Struct, gc=False):
    """One znode as ZooKeeper keeps it; `cversion` counts creations of children only."""

    data: bytes | None
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    owner: int
    pzxid: int
    acl: bytes


class Change(Struct, frozen=True, gc=False):
    """One path that a transaction touched: what it was and is; None for absent."""

    path: str
    was: Node | None
    now: Node | None


def parent_of(path: str) -> str:
    """The path above.

    >>> parent_of("/brokers/ids"), parent_of("/brokers")
    ('/brokers', '/')
    """
    return path[: path.rfind("/")] or "/"


def _built_in() -> Node:
    """A znode of a server that has never been written to."""
    return Node(b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, OPEN_ACL)


class Tree:
    """All znodes and sessions. Starts as an empty server's, or from a snapshot's."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {
            path: _built_in() for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")
        }
        self.nodes["/zookeeper/config"].aversion = -1
        self.nodes["/zookeeper/config"].acl = READ_ACL
        self.sessions: dict[int, int] = {}
        self.last_zxid = 0
        self._ephemerals: dict[int, set[str]] = {}

    @classmethod
    def of_snapshot(
        cls, rows: Iterable[SnapshotRow], acls: dict[int, bytes], sessions: dict[int, int], zxid: int
    ) -> Tree:
        """The state that a snapshot shows; `zxid` is the one in its name."""
        tree = cls()
        tree.nodes = {}
        tree.sessions = dict(sessions)
        tree.last_zxid = zxid
        for row in rows:
            tree.add(row, acls)
        return tree

    def add(self, row: SnapshotRow, acls: dict[int, bytes]) -> None:
        """Take one znode of a snapshot."""
        path, data, acl, czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, owner, pzxid = row
        self.nodes[path] = Node(
            data, czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, owner, pzxid,
            acls.get(acl, OPEN_ACL),
        )  # fmt: skip
        if is_session_owner(owner):
            self._ephemerals.setdefault(owner, set()).add(path)

    def ephemerals(self, session: int) -> frozenset[str]:
        """The znodes that go with a session."""
        return frozenset(self._ephemerals.get(session, ()))

    def apply(self, row: Row) -> list[Change]:
        """Apply one part of a transaction; the znodes whose data or existence it changed.

        A part that failed, or that a fuzzy snapshot already shows, changes nothing that counts.
        """
        zxid, time_ms, session, _, _, _, op, path, data, version, owner, acl, failed = row
        self.last_zxid = max(self.last_zxid, zxid)
        if failed is not None or op == CHECK:
            return []
        if op in (SET_DATA, RECONFIG):
            return self._set_data(path, data, version, zxid, time_ms)
        if op in CREATIONS:
            node = Node(data, zxid, zxid, time_ms, time_ms, 0, 0, 0, owner, zxid, acl)
            return self._create(path, node, version)
        if op in (DELETE, DELETE_CONTAINER):
            return self._delete(path, zxid)
        if op == CLOSE_SESSION:
            return self._close(session, path, zxid)
        if op == CREATE_SESSION:
            self.sessions[session] = version
        elif op == SET_ACL and (node_with_acl := self.nodes.get(path)) is not None:
            node_with_acl.acl, node_with_acl.aversion = acl, version
        return []

    def _create(self, path: str, node: Node, parent_cversion: int) -> list[Change]:
        parent = self.nodes.get(parent_of(path))
        if parent is None:
            return []
        if parent_cversion == UNKNOWN_PARENT_CVERSION:
            parent_cversion = parent.cversion + 1
        if parent_cversion > parent.cversion:
            parent.cversion = parent_cversion
            parent.pzxid = node.czxid
        existing = self.nodes.get(path)
        if existing is not None:
            existing.acl = node.acl
            return []
        self.nodes[path] = node
        if is_session_owner(node.owner):
            self._ephemerals.setdefault(node.owner, set()).add(path)
        return [Change(path, None, node)]

    def _delete(self, path: str, zxid: int) -> list[Change]:
        parent = self.nodes.get(parent_of(path))
        if parent is None:
            return []
        parent.pzxid = max(parent.pzxid, zxid)
        node = self.nodes.pop(path, None)
        if node is None:
            return []
        if is_session_owner(node.owner):
            self._ephemerals.get(node.owner, set()).discard(path)
        return [Change(path, node, None)]

    def _set_data(self, path: str, data: bytes | None, version: int, zxid: int, time_ms: int) -> list[Change]:
        was = self.nodes.get(path)
        if was is None:
            return []
        now = Node(
            data, was.czxid, zxid, was.ctime_ms, time_ms, version,
            was.cversion, was.aversion, was.owner, was.pzxid, was.acl,
        )  # fmt: skip
        self.nodes[path] = now
        return [Change(path, was, now)]

    def _close(self, session: int, path: str, zxid: int) -> list[Change]:
        if path:
            return self._delete(path, zxid)
        self.sessions.pop(session, None)
        changes: list[Change] = []
        for ephemeral in sorted(self._ephemerals.pop(session, ())):
            changes += self._delete(ephemeral, zxid)
        return changes
