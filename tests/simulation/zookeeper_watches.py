"""Which watches fire at a change, and which sessions are told?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from zk_layout.ids import SessionId, Zxid

if TYPE_CHECKING:
    from tests.simulation.zookeeper import Znode


class Happened(StrEnum):
    """What a watch saw."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """A watch fired."""

    happened: Happened
    path: str


ByPath = dict[str, dict[SessionId, None]]  # who watches it, in the order in which that was set


class Watches:
    """The watches at one server. One of data or children fires once, one of all below a path until it is removed.

    `tell` is called for each session whose watch fires, in order.
    """

    def __init__(self, tell: Callable[[SessionId, WatchEvent], None]) -> None:
        self.data: ByPath = {}
        self.children: ByPath = {}
        self.below: ByPath = {}
        self._tell = tell

    def on_data(self, session: SessionId, path: str) -> None:
        """Watch the data of a znode, or its creation."""
        self.data.setdefault(path, {})[session] = None

    def on_children(self, session: SessionId, path: str) -> None:
        """Watch which children it has."""
        self.children.setdefault(path, {})[session] = None

    def on_all_below(self, session: SessionId, path: str) -> None:
        """Watch a znode and all below it, whether they exist or not."""
        self.below.setdefault(path, {})[session] = None

    def set_again(
        self,
        session: SessionId,
        nodes: Mapping[str, Znode],
        since: Zxid,
        data: Iterable[str],
        existence: Iterable[str],
        children: Iterable[str],
    ) -> None:
        """Watch many znodes; for those changed since, fire at once instead."""
        for path in data:
            node = nodes.get(path)
            if node is None:
                self._tell(session, WatchEvent(Happened.DELETED, path))
            elif node.mzxid > since:
                self._tell(session, WatchEvent(Happened.CHANGED, path))
            else:
                self.on_data(session, path)
        for path in existence:
            if path in nodes:
                self._tell(session, WatchEvent(Happened.CREATED, path))
            else:
                self.on_data(session, path)
        for path in children:
            node = nodes.get(path)
            if node is None:
                self._tell(session, WatchEvent(Happened.DELETED, path))
            elif node.pzxid > since:
                self._tell(session, WatchEvent(Happened.CHILDREN, path))
            else:
                self.on_children(session, path)

    def forget(self, session: SessionId) -> None:
        """Drop a session's watches with the connection over which they were set."""
        for kind in (self.data, self.children, self.below):
            for sessions in kind.values():
                sessions.pop(session, None)

    def remove(self, session: SessionId, path: str) -> bool:
        """Remove a session's watches of all kinds at this path; False if there is none."""
        kinds = (self.data, self.children, self.below)
        if not any([session in kind.get(path, ()) for kind in kinds]):
            return False
        for kind in kinds:
            kind.get(path, {}).pop(session, None)
        return True

    def created(self, path: str, parent: str) -> None:
        """A znode was created."""
        self._fire(self.data, path, Happened.CREATED)
        self._fire(self.children, parent, Happened.CHILDREN)

    def changed(self, path: str) -> None:
        """Its data was set."""
        self._fire(self.data, path, Happened.CHANGED)

    def deleted(self, path: str, parent: str) -> None:
        """It was deleted."""
        fired = self._fire(self.data, path, Happened.DELETED)
        self._fire(self.children, path, Happened.DELETED, fired)
        self._fire(self.children, parent, Happened.CHILDREN)

    def _fire(
        self, watches: ByPath, path: str, happened: Happened, already_told: dict[SessionId, None] | None = None
    ) -> dict[SessionId, None]:
        fired = watches.pop(path, {})
        if happened is not Happened.CHILDREN:
            fired |= self._watching_above(path)
        for session in fired:
            if not already_told or session not in already_told:
                self._tell(session, WatchEvent(happened, path))
        return fired

    def _watching_above(self, path: str) -> dict[SessionId, None]:
        """The sessions with a watch of all below at this path or above it."""
        if not self.below:
            return {}
        above = [path]
        while above[-1] != "/":
            above.append(above[-1].rpartition("/")[0] or "/")
        return {session: None for at in above for session in self.below.get(at, ())}
