"""What does reading need of a session with ZooKeeper? Both the bridge and the simulated ZooKeeper provide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from controller.zk.answers import ConnectionState, Reply, WatchEvent
from controller.zk.protocol import Node, Request
from zk_layout.facts import Stat
from zk_layout.ids import Zxid


class Reads(Protocol):
    """One session, used only for reads and watches. `Bridge` documents each method."""

    seen_zxid: Zxid
    watch_listeners: list[Callable[[WatchEvent], None]]
    state_listeners: list[Callable[[ConnectionState], None]]
    knows_multi_read: bool | None

    async def ask(self, request: Request) -> Reply:
        """The answer, or the server's error code."""

    async def get(self, path: str, *, watch: bool = False) -> tuple[Node | None, Zxid]:
        """A znode, or None. A missing one gets no watch."""

    async def exists(self, path: str, *, watch: bool = False) -> tuple[Stat | None, Zxid]:
        """The znode's stat, or None. A missing znode is watched too."""

    async def children(self, path: str, *, watch: bool = False) -> tuple[list[str] | None, Zxid]:
        """The names of a znode's children, or None."""

    def watch_data(self, paths: Iterable[str], since: Zxid) -> None:
        """Watch the data of many znodes; for changes since `since`, an event comes at once."""

    def full(self, path: str) -> str:
        """The path with the chroot."""
