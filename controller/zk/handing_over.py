"""How does a leader that stops let a standby replace it, so that `/controller` is never vacant?

By the znode of the command `switchover`: the standby it names claims over the leader's claim, in one transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from controller.core.candidacy.successor import successor
from controller.zk import protocol
from controller.zk.answers import Change, ConnectionState, Refused, SessionEnded, WatchEvent
from controller.zk.bridge import Bridge
from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId, ZnodeVersion
from zk_layout.znodes import replicas, switchover
from zk_layout.znodes.controller import ControllerAddress, ControllerEpochAddress
from zk_layout.znodes.replicas import Replica, ReplicaAddress
from zk_layout.znodes.switchover import Switchover, SwitchoverAddress

_CONTROLLER: Final = ControllerAddress()
_EPOCH: Final = ControllerEpochAddress()
_SWITCHOVER: Final = SwitchoverAddress()


async def hand_over(
    bridge: Bridge, own_id: BrokerId, fence: ZnodeVersion, named: Callable[[BrokerId], None] = lambda _: None
) -> BrokerId | None:
    """Name a standby as successor, and return its id once `/controller` is no longer ours. None if no replica stands
    by, another switchover is in progress, or another process leads already. Waits without a limit.

    `named` is called with its id once it has been named; `withdraw` then undoes that.

    Raises:
        SessionEnded: nothing is held any more.
        Disconnected, Refused: ZooKeeper did not let us name it.
    """
    session, told = bridge.session, await _replicas(bridge)
    to = successor(told, own_id)
    if to is None:
        return None
    has_gone = asyncio.Event()

    def on_watch(event: WatchEvent) -> None:
        if event.path == _CONTROLLER.path and event.change is Change.DELETED:
            has_gone.set()

    def on_state(state: ConnectionState) -> None:
        if state is ConnectionState.LOST:
            has_gone.set()

    bridge.watch_listeners.append(on_watch)
    bridge.state_listeners.append(on_state)
    try:
        if not await _name(bridge, to, own_id, fence):
            return None
        named(to)
        found, _ = await bridge.exists(_CONTROLLER.path, watch=True)
        if found is not None and found.owner == session:
            await has_gone.wait()
    finally:
        if on_watch in bridge.watch_listeners:
            bridge.watch_listeners.remove(on_watch)
            bridge.state_listeners.remove(on_state)
    if bridge.session != session or bridge.state is ConnectionState.LOST:
        raise SessionEnded("the session expired while a successor was awaited")
    return to


async def withdraw(bridge: Bridge) -> None:
    """Ask no standby to lead any more; the request of an operator stays.

    Raises:
        SessionEnded: the request has gone with the session.
    """
    found, _ = await bridge.exists(_SWITCHOVER.path)
    if found is not None and found.owner == bridge.session:
        await bridge.read(protocol.Delete(bridge.full(_SWITCHOVER.path), found.version))


async def _name(bridge: Bridge, to: BrokerId, own_id: BrokerId, fence: ZnodeVersion) -> bool:
    """False if a switchover is in progress already, or we do not lead any more."""
    data = switchover.encode(Switchover(to, f"replica {own_id}, which stops", int(time.time() * 1000)))
    full, acl = bridge.full(_SWITCHOVER.path), bridge.acl(_SWITCHOVER.path)
    reply = await bridge.ask(
        protocol.transaction(
            (
                protocol.Check(bridge.full(_EPOCH.path), fence),
                protocol.Create(full, data, ephemeral=True, acl=acl),
            )
        )
    )
    if reply.code != protocol.OK:
        raise Refused(_SWITCHOVER.path, reply.code)
    refused = protocol.refusal(reply.value)
    if refused is not None and refused[1] not in (protocol.BAD_VERSION, protocol.NODE_EXISTS):
        raise Refused(_SWITCHOVER.path, refused[1])
    return refused is None


async def _replicas(bridge: Bridge) -> dict[BrokerId, Replica | Malformed | None]:
    """What each running replica says of itself."""
    names, _ = await bridge.children(replicas.ROOT)
    addresses = [ReplicaAddress(BrokerId(int(name))) for name in names or () if name.isdecimal()]
    nodes = await asyncio.gather(*(bridge.get(address.path) for address in addresses))
    found: dict[BrokerId, Replica | Malformed | None] = {}
    for address, (node, _) in zip(addresses, nodes, strict=True):
        value = None if node is None else catalog.decode(address, node.data)
        assert value is None or isinstance(value, Replica | Malformed)
        found[address.replica] = value
    return found
