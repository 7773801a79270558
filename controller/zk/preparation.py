"""What must ZooKeeper hold before a controller can work, whoever started first: brokers or controller?

Source: Kafka's KafkaController.maybeSetupFeatureVersioning (KIP-584).
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from controller.zk import protocol
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from controller.zk.protocol import Create
from zk_layout import catalog
from zk_layout.codec import Undecodable, json_decoder
from zk_layout.ids import BrokerId
from zk_layout.watched import PERSISTENT
from zk_layout.znodes import brokers, topics
from zk_layout.znodes.brokers import Registration
from zk_layout.znodes.controller import ControllerEpochAddress

_CLUSTER_ID: Final = "/cluster/id"


class _ClusterId(msgspec.Struct):
    id: str


_cluster_id_decoder = json_decoder(_ClusterId)


async def create_parents(bridge: Bridge) -> None:
    """Create what Kafka's brokers create when they start, the chroot included, where it is missing.

    Raises:
        Refused: we may not.
    """
    await asyncio.gather(*(create_missing(bridge, path) for path in PERSISTENT))


async def create_missing(bridge: Bridge, path: str) -> None:
    full, chroot = bridge.full(path), bridge.full("/").rstrip("/")
    ends = [at for at, letter in enumerate(full) if letter == "/" and at] + [len(full)]
    if (await bridge.exists(path))[0] is not None:
        return
    for end in ends:
        # Above the cluster Kafka, too, goes by the whole path.
        below = full[len(chroot) : end] or full[:end]
        reply = await bridge.read(Create(full[:end], acl=bridge.acl(below)))
        if reply.code not in (protocol.OK, protocol.NODE_EXISTS):
            raise Refused(full[:end], reply.code)


async def hindrance(bridge: Bridge) -> str | None:
    """What no controller can do without, and ZooKeeper does not let this process read."""
    try:
        await asyncio.gather(
            bridge.children(brokers.ROOT), bridge.children(topics.ROOT), bridge.get(ControllerEpochAddress().path)
        )
    except Refused as error:
        return str(error)
    return None


async def cluster_id(bridge: Bridge) -> str | None:
    """The id that the first broker gave to the cluster; None before."""
    node, _ = await bridge.get(_CLUSTER_ID)
    if node is None:
        return None
    try:
        return _cluster_id_decoder(node.data).id
    except Undecodable:
        return None


async def registrations(bridge: Bridge, *, with_ours: bool = False) -> dict[BrokerId, Registration]:
    """The brokers that are registered now, perhaps with whichever of our replicas leads, and how they can be reached;
    unreadable ones are left out.

    Raises:
        Refused: we may not list them.
    """
    names, _ = await bridge.children(brokers.ROOT)
    broker_ids = [BrokerId(int(name)) for name in names or () if name.isdecimal()]
    # Together: one after the other, some hundred brokers take as many round trips.
    seen = await asyncio.gather(*(_registration(bridge, broker) for broker in broker_ids))
    found = {broker: value for broker, value in zip(broker_ids, seen, strict=True) if value is not None}
    return {broker: value for broker, value in found.items() if with_ours or not value.is_ours}


async def _registration(bridge: Bridge, broker: BrokerId) -> Registration | None:
    """Its registration, if it can be read."""
    address = brokers.BrokerAddress(broker)
    try:
        node, _ = await bridge.get(address.path)
    except Refused:
        return None  # whoever leads says so
    value = None if node is None else catalog.decode(address, node.data)
    return value if isinstance(value, Registration) else None
