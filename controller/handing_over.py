"""How is the cluster given to Kafka's own controllers, and taken back? What `kafka-zk-controller release` does.

Every replica watches one znode. While it exists the leading one finishes what is in flight and gives `/controller` up,
and none claims it; so a broker's native controller is elected, and stays.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from controller.zk import preparation, protocol
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from controller.zk.connect_settings import ZooKeeperSettings
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes import release, replica_deletions
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim
from zk_layout.znodes.release import Release, ReleaseAddress

_RELEASE: Final = ReleaseAddress()
_CONTROLLER: Final = ControllerAddress()
_LOOK_EVERY_S: Final = 0.1


class Outcome(Struct, frozen=True):
    """Who leads now, and what a person should know.

    Shape:
        `controller` is None as long as nobody holds `/controller`; `is_ours` says of what kind it is.
        `released` is what the znode says, None where it does not exist. `unconfirmed` names the topics of which
        replicas are left that no broker has confirmed to have deleted: a native controller never asks for it.
    """

    is_done: bool
    controller: BrokerId | None
    is_ours: bool
    released: Release | None
    unconfirmed: tuple[str, ...] = ()


class NobodyToTakeOver(Exception):
    """No broker is registered that could become the controller."""


async def give(settings: ZooKeeperSettings, reason: str, *, timeout_s: float, is_forced: bool = False) -> Outcome:
    """Release the cluster, and wait until a native controller holds `/controller`.

    Raises:
        NobodyToTakeOver: no broker runs; not with `is_forced`.
        Disconnected, SessionEnded, Refused: ZooKeeper cannot be asked, or does not let us.
    """
    return await _with(settings, lambda bridge: _give(bridge, reason, timeout_s, is_forced=is_forced))


async def undo(settings: ZooKeeperSettings, *, timeout_s: float) -> Outcome:
    """Let our replicas stand for election again, and wait until one holds `/controller`.

    Raises:
        Disconnected, SessionEnded, Refused: ZooKeeper cannot be asked, or does not let us.
    """
    return await _with(settings, lambda bridge: _undo(bridge, timeout_s))


async def _with(settings: ZooKeeperSettings, do: Callable[[Bridge], Awaitable[Outcome]]) -> Outcome:
    bridge = Bridge(settings)
    await bridge.start()
    try:
        return await do(bridge)
    finally:
        await bridge.stop()


async def _give(bridge: Bridge, reason: str, timeout_s: float, *, is_forced: bool) -> Outcome:
    if not is_forced and not await preparation.registrations(bridge):
        raise NobodyToTakeOver
    wanted = Release(f"{getpass.getuser()}@{socket.gethostname()}", int(time.time() * 1000), reason)
    full = bridge.full(_RELEASE.path)
    reply = await bridge.read(protocol.Create(full, release.encode(wanted), acl=bridge.settings.acl))
    if reply.code not in (protocol.OK, protocol.NODE_EXISTS):
        raise Refused(_RELEASE.path, reply.code)
    return await _wait_for(bridge, timeout_s, is_ours=False)


async def _undo(bridge: Bridge, timeout_s: float) -> Outcome:
    reply = await bridge.read(protocol.Delete(bridge.full(_RELEASE.path), -1))
    if reply.code not in (protocol.OK, protocol.NO_NODE):
        raise Refused(_RELEASE.path, reply.code)
    return await _wait_for(bridge, timeout_s, is_ours=True)


async def _wait_for(bridge: Bridge, timeout_s: float, *, is_ours: bool) -> Outcome:
    deadline = time.monotonic() + timeout_s
    while True:
        found = await _look(bridge)
        is_done = found.controller is not None and found.is_ours is is_ours
        if is_done or time.monotonic() >= deadline:
            unconfirmed = tuple(sorted((await bridge.children(replica_deletions.ROOT))[0] or ()))
            return Outcome(is_done, found.controller, found.is_ours, found.released, unconfirmed)
        await asyncio.sleep(_LOOK_EVERY_S)


async def _look(bridge: Bridge) -> Outcome:
    node, _ = await bridge.get(_CONTROLLER.path)
    wanted, _ = await bridge.get(_RELEASE.path)
    claim = None if node is None else catalog.decode(_CONTROLLER, node.data)
    released = None if wanted is None else catalog.decode(_RELEASE, wanted.data)
    return Outcome(
        is_done=False,
        controller=claim.broker if isinstance(claim, ControllerClaim) else None,
        is_ours=isinstance(claim, ControllerClaim) and claim.is_ours,
        released=released if isinstance(released, Release) else None,
    )
