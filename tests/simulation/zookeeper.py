"""What would ZooKeeper answer? Its data tree, sessions and watches, in memory and without time.

`tests/conformance` compares it with a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntFlag, StrEnum
from itertools import count
from typing import NamedTuple, Protocol

from msgspec import Struct

from tests.simulation.zookeeper_watches import Watches, WatchEvent
from zk_layout.facts import Stat
from zk_layout.ids import SessionId, ZnodeVersion, Zxid

JUTE_MAXBUFFER = 0xFFFFF


class ZkError(StrEnum):
    """An error with which ZooKeeper refuses an operation."""

    NO_NODE = "no node"
    NO_AUTH = "no permission"
    INVALID_ACL = "an unknown owner"
    NODE_EXISTS = "node exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    EPHEMERAL_PARENT = "no children for ephemerals"
    NO_WATCH = "no such watch"
    ROLLED_BACK = "rolled back"
    INCONSISTENT = "runtime inconsistency"


class Refused(Exception):
    """A single operation was refused."""

    def __init__(self, error: ZkError, path: str) -> None:
        super().__init__(f"{error}: {path}")
        self.error = error


class SessionExpired(Exception):
    """The session does not exist any more."""


class MakeNode(Struct, frozen=True):
    """Create. An ACL for the creator alone is refused, because no client logs in here."""

    path: str
    data: bytes = b""
    is_ephemeral: bool = False
    is_sequential: bool = False
    is_owned: bool = False


class SetData(Struct, frozen=True):
    """Set the data; -1 is any version."""

    path: str
    data: bytes
    version: int = -1


class RemoveNode(Struct, frozen=True):
    """Delete; -1 is any version."""

    path: str
    version: int = -1


class CheckVersion(Struct, frozen=True):
    """Check the version."""

    path: str
    version: int


Operation = MakeNode | SetData | RemoveNode | CheckVersion


class Permission(IntFlag):
    """A right in an ACL; creating and deleting concern the znode's children."""

    NONE = 0
    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class Attached(Protocol):
    """A session's current connection."""

    def fired(self, event: WatchEvent) -> None:
        """A watch of the session fired."""

    def expired(self) -> None:
        """The session has expired."""


class Transaction(NamedTuple):
    """One entry in the leader's order: changes of the tree, the end of a session, or nothing visible."""

    zxid: Zxid
    session: SessionId
    operations: tuple[Operation, ...] = ()
    ended: SessionId | None = None


class Learner(Protocol):
    """A server that receives every transaction, and applies it in its own time."""

    attached: dict[SessionId, Attached]

    def learn(self, transaction: Transaction) -> None:
        """Take the next transaction."""


class Znode:
    """One node of the tree."""

    __slots__ = ("children", "czxid", "data", "mzxid", "owner", "pzxid", "sequence", "version")

    def __init__(self, data: bytes, zxid: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.version = 0
        self.owner = owner
        self.children: dict[str, None] = {}
        self.sequence = 0

    def copy(self) -> Znode:
        """The same in another server's tree."""
        copied = Znode(self.data, self.czxid, self.owner)
        copied.mzxid, copied.pzxid, copied.version = self.mzxid, self.pzxid, self.version
        copied.children, copied.sequence = dict(self.children), self.sequence
        return copied

    def stat(self) -> Stat:
        """Its creation and last change, their count, and the session that owns it."""
        return Stat(Zxid(self.czxid), Zxid(self.mzxid), ZnodeVersion(self.version), SessionId(self.owner))


class Multi(NamedTuple):
    """The outcome of a transaction: a result for each operation, or an error for each."""

    zxid: Zxid
    results: tuple[str | Stat | None, ...]
    errors: tuple[ZkError, ...]

    @property
    def failed_at(self) -> int | None:
        """The index of the refused operation."""
        for index, error in enumerate(self.errors):
            if error is not ZkError.ROLLED_BACK:
                return index
        return None


def _as_done(operation: Operation, result: str | Stat | None) -> Operation:
    """An operation as every server applies it; only the leader numbers sequential names."""
    if isinstance(operation, MakeNode) and isinstance(result, str):
        return MakeNode(result, operation.data, operation.is_ephemeral)
    return operation


def parent_of(path: str) -> str:
    """The parent's path."""
    return path.rpartition("/")[0] or "/"


class ZooKeeper:
    """One ensemble, as a single order of writes: its leader, which orders and shows them.

    `on_event` is called for each watch that fires, `on_write` for each change of the tree, in order.
    """

    def __init__(
        self,
        on_event: Callable[[SessionId, WatchEvent], None],
        on_write: Callable[[SessionId, Operation, Zxid], None],
    ) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0)}
        self.zxid = Zxid(0)
        self.sessions: dict[SessionId, None] = {}
        self.hidden: set[str] = set()  # znodes that may neither be read nor listed
        self.on_arrival: Callable[[SessionId, Sequence[Operation]], None] = lambda *_: None
        self.on_no_auth: Callable[[SessionId, Operation], None] = lambda *_: None
        self._on_event = on_event
        self._on_write = on_write
        self._session_ids = count(1)
        self.watches = Watches(self._tell)
        self.attached: dict[SessionId, Attached] = {}
        # By path, the rights of a client without identity; tools without a connection have them all.
        self.acls: dict[str, Permission] = {}
        self.frame_limit = JUTE_MAXBUFFER
        self.knows_multi_read = self.knows_recursive_watches = True
        self.hangs_up_on_unknown = True
        self.leader: ZooKeeper = self
        self.learners: list[Learner] = []

    # sessions

    def open_session(self) -> SessionId:
        """A new session."""
        session = SessionId(next(self._session_ids))
        zxid = self._next_zxid()
        self.sessions[session] = None
        self._teach(Transaction(zxid, session))
        return session

    def close_session(self, session: SessionId) -> None:
        """End a session, by itself or by expiry: its watches and ephemeral nodes go, all at one zxid."""
        if session not in self.sessions:
            return
        del self.sessions[session]
        self.watches.forget(session)
        attached = self.attached.pop(session, None)
        zxid = self._next_zxid()
        removed = tuple([RemoveNode(path) for path, node in self.nodes.items() if node.owner == session])
        for operation in removed:
            self._apply(SessionId(0), operation, zxid)
        if attached is not None:
            attached.expired()
        self._teach(Transaction(zxid, SessionId(0), removed, session))

    # reads

    def get(self, session: SessionId, path: str, watch: bool = False) -> tuple[bytes, Stat] | None:
        """Data and stat, or None; a watch is set only if the node exists.

        Raises:
            SessionExpired, Refused: it may not be read.
        """
        self._touch(session)
        node = self.nodes.get(path)
        if node is None:
            return None
        self._demand(session, path, Permission.READ)
        if watch:
            self.watches.on_data(session, path)
        return node.data, node.stat()

    def exists(self, session: SessionId, path: str, watch: bool = False) -> Stat | None:
        """Its stat, or None; a watch is set in both cases, but not on a hidden node."""
        self._touch(session)
        node = self.nodes.get(path)
        if node is not None and path in self.hidden:
            self._demand(session, path, Permission.READ)  # as newer servers do
        if watch:
            self.watches.on_data(session, path)
        return None if node is None else node.stat()

    def children(self, session: SessionId, path: str, watch: bool = False) -> tuple[str, ...] | None:
        """The children's names in order, or None; a watch is set only if the node exists.

        Raises:
            SessionExpired, Refused: they may not be read.
        """
        self._touch(session)
        node = self.nodes.get(path)
        if node is None:
            return None
        self._demand(session, path, Permission.READ)
        if watch:
            self.watches.on_children(session, path)
        return tuple(sorted(node.children))

    def set_watches(
        self,
        session: SessionId,
        since: Zxid,
        data: Iterable[str] = (),
        existence: Iterable[str] = (),
        children: Iterable[str] = (),
    ) -> None:
        """Watch many nodes; for those changed since, fire at once instead."""
        self._touch(session)
        self.watches.set_again(session, self.nodes, since, data, existence, children)

    def watch_below(self, session: SessionId, path: str) -> None:
        """Watch a node and all below it, whether they exist or not, until the watch is removed."""
        self._touch(session)
        self.watches.on_all_below(session, path)

    def remove_watches(self, session: SessionId, path: str) -> None:
        """Remove the session's watches of all kinds at this path.

        Raises:
            SessionExpired, Refused: there is none.
        """
        self._touch(session)
        if not self.watches.remove(session, path):
            raise Refused(ZkError.NO_WATCH, path)

    # writes

    def multi(self, session: SessionId, operations: Sequence[Operation]) -> Multi:
        """Carry out all operations at one zxid, or none."""
        self._touch(session)
        zxid = self._next_zxid()
        staged = _Staged(self.nodes, self.acls if self._is_client(session) else {})
        for index, operation in enumerate(operations):
            error = staged.try_out(operation)
            if error is not None:
                before, after = [ZkError.ROLLED_BACK] * index, len(operations) - index - 1
                self._teach(Transaction(zxid, session))
                if error is ZkError.NO_AUTH:
                    self.on_no_auth(session, operation)
                return Multi(zxid, (), (*before, error, *[ZkError.INCONSISTENT] * after))
        results = tuple([self._apply(session, o, zxid) for o in operations])
        if self.learners:
            self._teach(Transaction(zxid, session, tuple(map(_as_done, operations, results))))
        return Multi(zxid, results, ())

    def write(self, session: SessionId, operation: Operation) -> str | Stat | None:
        """Carry out a single operation."""
        outcome = self.multi(session, [operation])
        if outcome.errors:
            raise Refused(outcome.errors[0], operation.path)
        return outcome.results[0]

    def make_path(self, path: str) -> None:
        """Create a persistent node and its missing parents, as part of the initial state."""
        if path not in self.nodes:
            self.make_path(parent_of(path))
            zxid, made = self._next_zxid(), MakeNode(path)
            self._apply(SessionId(0), made, zxid)
            self._teach(Transaction(zxid, SessionId(0), (made,)))

    # the other servers

    def when_applied(self, _: Zxid, act: Callable[[], None]) -> None:
        """Act as soon as this server has applied the leader's order up to there."""
        act()

    def _teach(self, transaction: Transaction) -> None:
        for learner in self.learners:
            learner.learn(transaction)

    def _is_client(self, session: SessionId) -> bool:
        return session in self.attached or any(session in learner.attached for learner in self.learners)

    # inside

    def _touch(self, session: SessionId) -> None:
        if session not in self.sessions:
            raise SessionExpired

    def _demand(self, session: SessionId, path: str, permission: Permission) -> None:
        is_hidden = permission is Permission.READ and path in self.hidden
        if session in self.attached and (is_hidden or permission not in self.acls.get(path, Permission.ALL)):
            raise Refused(ZkError.NO_AUTH, path)

    def _tell(self, session: SessionId, event: WatchEvent) -> None:
        attached = self.attached.get(session)
        if attached is not None:
            attached.fired(event)
        else:
            self._on_event(session, event)

    def _next_zxid(self) -> Zxid:
        self.zxid = Zxid(self.zxid + 1)
        return self.zxid

    def _apply(self, session: SessionId, operation: Operation, zxid: Zxid) -> str | Stat | None:
        result: str | Stat | None = None
        match operation:
            case MakeNode():
                result = self._make(session, operation, zxid)
                operation = MakeNode(result, operation.data, operation.is_ephemeral)
            case SetData(path, data):
                node = self.nodes[path]
                node.data, node.mzxid, node.version = data, zxid, node.version + 1
                result = node.stat()
                self.watches.changed(path)
            case RemoveNode(path):
                self._remove(path, zxid)
            case CheckVersion():
                return None
        self._on_write(session, operation, zxid)
        return result

    def _make(self, session: SessionId, operation: MakeNode, zxid: Zxid) -> str:
        parent_path = parent_of(operation.path)
        parent = self.nodes[parent_path]
        path = operation.path + (f"{parent.sequence:010d}" if operation.is_sequential else "")
        parent.sequence += 1
        self.nodes[path] = Znode(operation.data, zxid, session if operation.is_ephemeral else 0)
        parent.children[path.rpartition("/")[2]] = None
        parent.pzxid = zxid
        self.watches.created(path, parent_path)
        return path

    def _remove(self, path: str, zxid: Zxid) -> None:
        del self.nodes[path]
        if self.leader is self:  # permissions are the same at every server
            self.acls.pop(path, None)
            self.hidden.discard(path)
        parent_path = parent_of(path)
        parent = self.nodes[parent_path]
        del parent.children[path.rpartition("/")[2]]
        parent.pzxid = zxid
        self.watches.deleted(path, parent_path)


class _Staged:
    """The tree after some operations of a transaction, to try out the next ones."""

    def __init__(self, nodes: dict[str, Znode], acls: dict[str, Permission]) -> None:
        self._nodes = nodes
        self._acls = acls
        self._versions: dict[str, int | None] = {}
        self._children: dict[str, int] = {}
        self._ephemeral: dict[str, bool] = {}
        self._sequences: dict[str, int] = {}

    def _version(self, path: str) -> int | None:
        if path in self._versions:
            return self._versions[path]
        node = self._nodes.get(path)
        return None if node is None else node.version

    def _child_count(self, path: str) -> int:
        node = self._nodes.get(path)
        return self._children.get(path, len(node.children) if node else 0)

    def _is_ephemeral(self, path: str) -> bool:
        node = self._nodes.get(path)
        return self._ephemeral.get(path, bool(node and node.owner))

    def _permits(self, path: str, permission: Permission) -> bool:
        return permission in self._acls.get(path, Permission.ALL)

    def try_out(self, operation: Operation) -> ZkError | None:
        """The error with which it would be refused, or None."""
        match operation:
            case MakeNode():
                return self._try_make(operation)
            case RemoveNode(path, version):
                return self._try_remove(path, version)
            case SetData(path, _, version) | CheckVersion(path, version):
                held = self._version(path)
                if held is None:
                    return ZkError.NO_NODE
                needed = Permission.WRITE if isinstance(operation, SetData) else Permission.READ
                if not self._permits(path, needed):
                    return ZkError.NO_AUTH
                if version not in (-1, held):
                    return ZkError.BAD_VERSION
                if isinstance(operation, SetData):
                    self._versions[path] = held + 1
        return None

    def _try_make(self, operation: MakeNode) -> ZkError | None:
        if operation.is_owned:
            return ZkError.INVALID_ACL
        parent = parent_of(operation.path)
        if self._version(parent) is None:
            return ZkError.NO_NODE
        if not self._permits(parent, Permission.CREATE):
            return ZkError.NO_AUTH
        held = self._nodes.get(parent)
        number = self._sequences.get(parent, 0 if held is None else held.sequence)
        path = operation.path + (f"{number:010d}" if operation.is_sequential else "")
        if self._version(path) is not None:
            return ZkError.NODE_EXISTS
        if self._is_ephemeral(parent):
            return ZkError.EPHEMERAL_PARENT
        self._versions[path] = self._children[path] = self._sequences[path] = 0
        self._ephemeral[path] = operation.is_ephemeral
        self._sequences[parent] = number + 1
        self._children[parent] = self._child_count(parent) + 1
        return None

    def _try_remove(self, path: str, version: int) -> ZkError | None:
        parent = parent_of(path)
        if self._version(parent) is not None and not self._permits(parent, Permission.DELETE):
            return ZkError.NO_AUTH
        held = self._version(path)
        if held is None:
            return ZkError.NO_NODE
        if version not in (-1, held):
            return ZkError.BAD_VERSION
        if self._child_count(path):
            return ZkError.NOT_EMPTY
        self._versions[path] = None
        self._children[parent] = self._child_count(parent) - 1
        return None
