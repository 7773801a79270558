"""Which znodes show how a controller stands, and what do they hold? Bounded; none that holds secrets is read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from controller.zk.answers import Refused
from controller.zk.bridge import Bridge

_MOST_BYTES: Final = 64 * 1024
_MOST_CHILDREN: Final = 500
_AT_ONCE: Final = 50

WHOLE: Final = (
    "/controller",
    "/controller_epoch",
    "/cluster/id",
    "/feature",
    "/latest_producer_id_block",
    "/migration",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
    "/kafka_zk_controller/controller_ids",
    "/kafka_zk_controller/paused",
    "/kafka_zk_controller/released",
    "/kafka_zk_controller/switchover",
)
WITH_CHILDREN: Final = ("/brokers/ids", "/kafka_zk_controller/replicas", "/kafka_zk_controller/replica_deletions")
NAMED: Final = ("/", "/admin/delete_topics", "/admin/reassignments", "/admin/reassign_partitions_status")
COUNTED: Final = (
    "/brokers/topics",
    "/config/topics",
    "/config/brokers",
    "/config/changes",
    "/isr_change_notification",
    "/log_dir_event_notification",
)


async def znodes(bridge: Bridge) -> dict[str, Any]:
    """What they hold, by path: data and stat, the names of children, or how many there are.

    Raises:
        SessionEnded: the session has ended.
    """
    lists = dict(zip(_FOLDERS, await asyncio.gather(*(_children(bridge, path) for path in _FOLDERS)), strict=True))
    paths = [*WHOLE, *(f"{path}/{name}" for path in WITH_CHILDREN for name in _names(lists[path])[:_MOST_CHILDREN])]
    found: dict[str, Any] = {path: _counted(lists[path]) for path in COUNTED}
    found |= {path: _shortened(lists[path]) for path in (*NAMED, *WITH_CHILDREN)}
    for at in range(0, len(paths), _AT_ONCE):
        some = paths[at : at + _AT_ONCE]
        found |= zip(some, await asyncio.gather(*(_node(bridge, path) for path in some)), strict=True)
    return dict(sorted(found.items()))


_FOLDERS: Final = (*WITH_CHILDREN, *NAMED, *COUNTED)


async def _node(bridge: Bridge, path: str) -> Mapping[str, Any] | str | None:
    try:
        node, _ = await bridge.get(path)
    except Refused as refused:
        return str(refused)
    if node is None:
        return None
    stat = node.stat
    return {
        "data": node.data[:_MOST_BYTES].decode("utf-8", "backslashreplace"),
        "bytes": len(node.data),
        "version": stat.version,
        "czxid": hex(stat.czxid),
        "mzxid": hex(stat.mzxid),
        "owner": hex(stat.owner),
    }


async def _children(bridge: Bridge, path: str) -> tuple[str, ...] | str | None:
    try:
        names, _ = await bridge.children(path)
    except Refused as refused:
        return str(refused)
    return None if names is None else tuple(sorted(names))


def _names(found: tuple[str, ...] | str | None) -> tuple[str, ...]:
    return found if isinstance(found, tuple) else ()


def _counted(found: tuple[str, ...] | str | None) -> Any:
    return {"children": len(found)} if isinstance(found, tuple) else found


def _shortened(found: tuple[str, ...] | str | None) -> Any:
    if not isinstance(found, tuple):
        return found
    return {"children": len(found), "names": found[:_MOST_CHILDREN]}
