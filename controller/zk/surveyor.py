"""What is below a topic's znode, whether Kafka created it or not?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.zk.answers import Refused
from controller.zk.bulk import BulkReader, ChunkSize, Hidden
from controller.zk.protocol import Node
from controller.zk.reads import Reads
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.ids import TopicName, ZnodeVersion
from zk_layout.znodes.topics import TopicAddress, TopicRemnantAddress


class Surveyor:
    """Lists everything below a topic, so that it can be deleted. `refused` and `allowed` report what we may not
    list."""

    def __init__(
        self,
        bridge: Reads,
        bulk: BulkReader,
        refused: Callable[[str, str], None],
        allowed: Callable[[str], None],
    ) -> None:
        self._bridge = bridge
        self._bulk = bulk
        self._refused = refused
        self._allowed = allowed

    async def everything_below(self, topic: TopicName) -> tuple[tuple[Address, ZnodeVersion], ...]:
        """Children before their parents. Leaves out what vanishes meanwhile and what we may not list.

        Raises:
            SessionEnded: the session has ended.
        """
        root = TopicAddress(topic).path
        levels = [[root]]
        while levels[-1]:
            listings = await asyncio.gather(*(self._list(path) for path in levels[-1]))
            pairs = zip(levels[-1], listings, strict=True)
            levels.append([f"{path}/{name}" for path, names in pairs for name in sorted(names)])
        paths = [path for level in reversed(levels[1:]) for path in level]
        found = await self._bulk.read(paths, ChunkSize())
        for path, (node, _) in zip(paths, found, strict=True):
            if isinstance(node, Hidden):
                self._refused(path, node.reason)
        return tuple(
            (named(path) or TopicRemnantAddress(topic, path.removeprefix(f"{root}/")), node.stat.version)
            for path, (node, _) in zip(paths, found, strict=True)
            if isinstance(node, Node)
        )

    async def _list(self, path: str) -> list[str]:
        try:
            names, _ = await self._bridge.children(path)
        except Refused as error:
            self._refused(path, f"{error} (its children)")
            return []
        self._allowed(path)
        return names or []


def named(path: str) -> Address | None:
    """The znode of this path; None also for another spelling of an address, such as broker "007"."""
    address = catalog.address_of(path)
    return address if address is not None and address.path == path else None
