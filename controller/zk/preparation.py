"""What must ZooKeeper hold before a controller can work, whether brokers or controller started first?

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
    """Create the znodes Kafka's brokers create at start, the chroot included, where they are missing.

    Raises:
        Refused: ZooKeeper does not let us.
    """
    await asyncio.gather(*(create_missing(bridge, path) for path in PERSISTENT))


async def create_missing(bridge: Bridge, path: str) -> None:
    """Create a znode, and those above it that are missing, unless it exists.

    Raises:
        Refused: ZooKeeper does not let us.
    """
    if (await bridge.exists(path))[0] is None:
        await _create(bridge, bridge.full(path))


async def _create(bridge: Bridge, full: str) -> None:
    """Source: Kafka's KafkaZkClient.createRecursive: parents that exist are left alone, since they may be closed."""
    # Above the cluster, Kafka too chooses the ACL by the whole path.
    acl = bridge.acl(full.removeprefix(bridge.full("/").rstrip("/")) or full)
    reply = await bridge.read(Create(full, acl=acl))
    if reply.code == protocol.NO_NODE:
        await _create(bridge, full.rpartition("/")[0])
        reply = await bridge.read(Create(full, acl=acl))
    if reply.code not in (protocol.OK, protocol.NODE_EXISTS):
        raise Refused(full, reply.code)


async def blocker(bridge: Bridge) -> str | None:
    """A znode that every controller needs and ZooKeeper does not let this process read; None without one."""
    try:
        await asyncio.gather(
            bridge.children(brokers.ROOT), bridge.children(topics.ROOT), bridge.get(ControllerEpochAddress().path)
        )
    except Refused as error:
        return str(error)
    return None


async def cluster_id(bridge: Bridge) -> str | None:
    """The id that the first broker gave the cluster; None before that."""
    node, _ = await bridge.get(_CLUSTER_ID)
    if node is None:
        return None
    try:
        return _cluster_id_decoder(node.data).id
    except Undecodable:
        return None


async def registrations(bridge: Bridge) -> dict[BrokerId, Registration]:
    """The brokers registered now and their addresses, without replicas of ours and unreadable ones.

    Raises:
        Refused: ZooKeeper does not let us list them.
    """
    names, _ = await bridge.children(brokers.ROOT)
    broker_ids = [BrokerId(int(name)) for name in names or () if name.isdecimal()]
    # In parallel: sequentially, hundreds of brokers would take as many round trips.
    seen = await asyncio.gather(*(_registration(bridge, broker) for broker in broker_ids))
    found = zip(broker_ids, seen, strict=True)
    return {broker: value for broker, value in found if value is not None and not value.is_ours}


async def _registration(bridge: Bridge, broker: BrokerId) -> Registration | None:
    """A broker's registration; None if it cannot be read."""
    address = brokers.BrokerAddress(broker)
    try:
        node, _ = await bridge.get(address.path)
    except Refused:
        return None  # the leader reports it
    value = None if node is None else catalog.decode(address, node.data)
    return value if isinstance(value, Registration) else None
