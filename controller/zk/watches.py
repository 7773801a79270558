"""Which watches does a session hold, and which does a new connection have to set again?

ZooKeeper drops a connection's watches with it. One-shot watches that are set again tell what has changed since a zxid;
a recursive watch tells nothing of what changed while it was away. So the znodes for which a recursive watch stands are
remembered path by path. A new connection sets it first, and then a one-shot watch for each of these paths.

Source: WatchManager and DataTree.setWatches of ZooKeeper; ZOOKEEPER-1416.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from controller.zk import protocol
from controller.zk.answers import Change, Reply, WatchEvent
from controller.zk.protocol import Exists, GetChildren, GetData, Request, SetWatches
from zk_layout.ids import Zxid

_LOSSES_TO_BLAME_IT: Final = 2


class RecursiveWatch:
    """One watch for all znodes below a path, on each connection whose server knows such watches."""

    def __init__(self) -> None:
        """Nothing is wanted yet."""
        self.root = ""
        self.is_due = False
        """Whether the server is to be asked for it, before anything else is sent."""
        self._ending = ""
        self._since: Zxid | None = None
        self._losses = 0
        self._is_refused = False
        self._tell: Callable[[bool], None] = lambda _: None

    def want(self, root: str, ending: str, tell: Callable[[bool], None]) -> None:
        """Have it on this connection and each later one. `tell` receives once whether there is one."""
        self.root, self._ending, self._tell = root, ending, tell
        self._since = None
        self._losses, self._is_refused = 0, False

    def drop(self) -> bool:
        """Want it no more; return whether this connection has it."""
        is_held = self._since is not None
        self.root, self._since, self.is_due = "", None, False
        self._answer(False)
        return is_held

    def connected(self, *, knows_multi_read: bool) -> None:
        """There is a connection. A server that does not know the multi-read is older than recursive watches."""
        if not knows_multi_read:
            self._is_refused = True
        self.is_due = bool(self.root) and self._since is None and not self._is_refused
        if not self.is_due:
            self._answer(self._since is not None)

    def lost(self) -> None:
        """The connection is gone, and the watch with it."""
        self._since, self.is_due = None, False

    def answered(self, root: str, reply: Reply) -> bool:
        """The server has answered, or hung up; return whether it has a watch that is not wanted."""
        if root != self.root:
            return reply.code == protocol.OK
        self.is_due = False
        if reply.code == protocol.OK:
            self._since, self._losses = reply.zxid, 0
            self._answer(True)
            return False
        # It may hang up without an answer; once may be chance.
        self._losses += 1
        if reply.failure is None or self._losses >= _LOSSES_TO_BLAME_IT:
            self._is_refused = True
            self._answer(False)
        return False

    def covers(self, path: str, since: Zxid) -> bool:
        """Whether it has told, or will tell, of each change of this znode since then."""
        is_told = self._since is not None and since >= self._since
        return is_told and path.endswith(self._ending) and path.startswith(self.root + "/")

    def _answer(self, is_there: bool) -> None:
        tell, self._tell = self._tell, lambda _: None
        tell(is_there)


class Watches:
    """The watches of one session; all paths are full ones."""

    def __init__(self, most_bytes: int) -> None:
        """A request to set watches has about `most_bytes` at most."""
        self.data: set[str] = set()
        self.existence: set[str] = set()
        self.children: set[str] = set()
        self.recursive = RecursiveWatch()
        self._to_sift: list[tuple[str, set[str], set[str]]] = []
        self._most_bytes = most_bytes

    def of_data(self, paths: Iterable[str], since: Zxid) -> Iterator[SetWatches]:
        """The requests to send for telling of the next change of each znode since then, or that it is missing."""
        for request in protocol.set_watches(self._most_bytes, since, data=self._uncovered(paths, since, self.data)):
            self.data.update(request.data)
            yield request

    def of_creation(self, paths: Iterable[str], since: Zxid) -> Iterator[SetWatches]:
        """The requests to send for telling when each of these znodes is created."""
        left = self._uncovered(paths, since, self.existence)
        for request in protocol.set_watches(self._most_bytes, since, existence=left):
            self.existence.update(request.existence)
            yield request

    def of_all(self, since: Zxid) -> list[SetWatches]:
        """The requests for a new connection, which also tell what has changed since then."""
        while self.sift():
            pass
        return list(protocol.set_watches(self._most_bytes, since, self.data, self.existence, self.children))

    def answered(self, request: Request, reply: Reply) -> None:
        """Remember the watch that a read has set."""
        match request:
            case GetData(path, watch=True) if reply.code == protocol.OK:
                self.data.add(path)
            case GetChildren(path, watch=True) if reply.code == protocol.OK:
                self.children.add(path)
            case Exists(path, watch=True):
                watches = self.existence if reply.value is None else self.data
                watches.add(path)

    def fired(self, event: WatchEvent) -> None:
        """Forget what has told of its change."""
        if event.change is Change.CHILDREN:
            self.children.discard(event.path)
        else:
            self.data.discard(event.path)
            self.existence.discard(event.path)
            for _, data, existence in self._to_sift:
                data.discard(event.path)
                existence.discard(event.path)
            if event.change is Change.DELETED:
                self.children.discard(event.path)

    def forget(self, ending: str) -> None:
        """Set watches for changes of paths with this ending not again.

        There may be a million: they are sifted later, part by part, or when a new connection needs them.
        """
        self._to_sift.append((ending, self.data, self.existence))
        self.data, self.existence = set(), set()

    def sift(self, most: int = 10_000) -> bool:
        """Sift up to `most` of the watches with forgotten ones among them; return whether some are left."""
        while self._to_sift and most > 0:
            ending, *pair = self._to_sift[-1]
            for left, kept in zip(pair, (self.data, self.existence), strict=True):
                some = [left.pop() for _ in range(min(most, len(left)))]
                kept.update(path for path in some if not path.endswith(ending))
                most -= len(some)
            if not any(pair):
                self._to_sift.pop()
        return bool(self._to_sift)

    def clear(self) -> None:
        """The session has ended."""
        for watches in (self.data, self.existence, self.children):
            watches.clear()
        self._to_sift.clear()
        self.recursive.drop()

    def _uncovered(self, paths: Iterable[str], since: Zxid, remembered: set[str]) -> list[str]:
        left = []
        for path in paths:
            if self.recursive.covers(path, since):
                remembered.add(path)
            else:
                left.append(path)
        return left
