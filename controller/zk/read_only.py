"""How is a session with ZooKeeper made that cannot write? What could change a znode is refused before it is sent."""

from __future__ import annotations

from typing import Final

from kazoo.client import KazooClient

from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk import kazoo_internals
from controller.zk.answers import Done
from controller.zk.bridge import Bridge
from controller.zk.protocol import Exists, GetChildren, GetData, MultiRead, Request, SetWatches, Sync
from controller.zk.rights import GetAcl

READING: Final = frozenset(kind.type for kind in (Exists, GetData, GetChildren, MultiRead, SetWatches, Sync, GetAcl))
"""All that a session may ask. Each leaves the znodes as they are; `Sync` waits for the server, and writes nothing."""


class WouldWrite(Exception):
    """A request that could change a znode was made in a session that only reads; nothing was sent."""


class ReadOnlyBridge(Bridge):
    """A session that only reads. Of it, ZooKeeper's transaction log has the opening and the closing.

    A request is refused twice: here, where its caller learns of it, and where all requests of kazoo's client pass, so
    that no path around this class can send one.
    """

    def __init__(self, settings: ZooKeeperSettings, client: KazooClient | None = None) -> None:
        super().__init__(settings, client)
        kazoo_internals.send_only(self._client, READING)

    def submit(self, request: Request, done: Done, *, ahead: bool = False) -> None:
        """Send a request that reads.

        Raises:
            WouldWrite: it could change something.
        """
        if request.type not in READING:
            raise WouldWrite(f"{type(request).__name__} is not sent: this process only reads")
        super().submit(request, done, ahead=ahead)
