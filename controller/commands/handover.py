"""How is the cluster given to Kafka's own controllers, taken back, or given to another replica?

For the commands `release` and `switchover`.

Every replica watches two znodes. While the release znode exists, the leader finishes what is in flight and gives
`/controller` up, and no replica claims it; so a broker's native controller is elected and stays. While the switchover
znode exists, the replica it names claims `/controller` over another replica's claim, so that it is never vacant.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller.core.candidacy.migrating import MigrationPhase
from controller.zk import inspection, preparation, protocol
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId, ControllerEpoch
from zk_layout.znodes import release, replica_deletions, replicas, switchover
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.pause import Pause
from zk_layout.znodes.release import Release, ReleaseAddress
from zk_layout.znodes.replicas import Replica, ReplicaAddress
from zk_layout.znodes.switchover import Switchover, SwitchoverAddress

_RELEASE: Final = ReleaseAddress()
_SWITCHOVER: Final = SwitchoverAddress()
_CONTROLLER: Final = ControllerAddress()
_EPOCH: Final = ControllerEpochAddress()
_LOOK_EVERY_S: Final = 0.1
# A release counts whatever its znode holds.
_BY_HAND: Final = Release("an unknown user", 0, f"{_RELEASE.path} was not written by `release`")


class Outcome(Struct, frozen=True):
    """Who leads now, and what the operator should know.

    Shape:
        `controller` is None while `/controller` is vacant; `is_ours` says whether the holder is a replica of ours.
        `released` is what the znode says, None where it does not exist. `unconfirmed` names topics with former replicas
        whose deletion no broker has confirmed: a native controller never requests it.
    """

    is_done: bool
    controller: BrokerId | None
    is_ours: bool
    released: Release | None
    unconfirmed: tuple[str, ...] = ()


def who_asked(order: Release | Pause) -> str:
    """Who released the cluster, or paused moves, when and why, for people to read."""
    try:
        at = datetime.fromtimestamp(order.at_ms / 1000).astimezone().isoformat(" ", "seconds")
    except (OSError, OverflowError, ValueError):
        at = "an unknown time"  # the znode was not written by a command of ours
    when = f" at {at}" if order.at_ms else ""
    return f"by {order.by}{when}{f': {order.reason}' if order.reason else ''}"


class NoBrokerToTakeOver(Exception):
    """No registered broker could become the controller."""


class CannotSwitch(Exception):
    """The replica cannot take over; says why, and what can be done."""


class Leadership(Struct, frozen=True):
    """The holder of `/controller`, and the replicas that run.

    Shape:
        `replicas` are by id; one whose znode cannot be read is None. `migration` is the phase of one to KRaft.
        `paused`: who paused moves, None without a pause.
    """

    controller: BrokerId | None
    is_ours: bool
    epoch: ControllerEpoch | None
    released: Release | None
    replicas: dict[BrokerId, Replica | None]
    migration: MigrationPhase = MigrationPhase.NONE
    paused: Pause | None = None


async def give(bridge: Bridge, reason: str, *, timeout_s: float, is_forced: bool = False) -> Outcome:
    """Release the cluster, and wait until a native controller holds `/controller`.

    Raises:
        NoBrokerToTakeOver: no broker runs; not with `is_forced`.
        Disconnected, SessionEnded, Refused: ZooKeeper cannot be asked, or does not let us.
    """
    if not is_forced and not await preparation.registrations(bridge):
        raise NoBrokerToTakeOver
    wanted = Release(operator(), int(time.time() * 1000), reason)
    full = bridge.full(_RELEASE.path)
    reply = await bridge.read(protocol.Create(full, release.encode(wanted), acl=bridge.acl(_RELEASE.path)))
    if reply.code not in (protocol.OK, protocol.NODE_EXISTS):
        raise Refused(_RELEASE.path, reply.code)
    return await _wait_for(bridge, timeout_s, is_ours=False)


async def undo(bridge: Bridge, *, timeout_s: float) -> Outcome:
    """Let our replicas stand for election again, and wait until one holds `/controller`.

    Raises:
        Disconnected, SessionEnded, Refused: ZooKeeper cannot be asked, or does not let us.
    """
    reply = await bridge.read(protocol.Delete(bridge.full(_RELEASE.path), -1))
    if reply.code not in (protocol.OK, protocol.NO_NODE):
        raise Refused(_RELEASE.path, reply.code)
    return await _wait_for(bridge, timeout_s, is_ours=True)


async def switch(bridge: Bridge, to: BrokerId, *, timeout_s: float) -> Outcome:
    """Let replica `to` lead instead of another, and wait until it does. The request is withdrawn when the caller stops
    waiting.

    Raises:
        CannotSwitch: it does not run, is not ready, or no replica of ours leads.
        Disconnected, SessionEnded, Refused: ZooKeeper cannot be asked, or does not let us.
    """
    found = await leadership(bridge)
    if found.controller == to:
        return Outcome(is_done=True, controller=to, is_ours=True, released=found.released)
    if (why := _blocker(found, to)) is not None:
        raise CannotSwitch(why)
    wanted = Switchover(to, operator(), int(time.time() * 1000))
    full = bridge.full(_SWITCHOVER.path)
    acl = bridge.acl(_SWITCHOVER.path)
    reply = await bridge.read(protocol.Create(full, switchover.encode(wanted), ephemeral=True, acl=acl))
    if reply.code == protocol.NODE_EXISTS:
        raise CannotSwitch("another switchover is in progress: wait until it has ended")
    if reply.code != protocol.OK:
        raise Refused(_SWITCHOVER.path, reply.code)

    async def is_led(found: Outcome) -> bool:
        """Whether it holds `/controller` and has loaded ZooKeeper's content."""
        replica = await _replica(bridge, to)
        return found.controller == to and replica is not None and replica.phase == "active"

    return await _wait_until(bridge, timeout_s, is_led)


def _blocker(found: Leadership, to: BrokerId) -> str | None:
    names = ", ".join(map(str, found.replicas)) or "none"
    if found.paused is not None:
        return f"moves are paused {who_asked(found.paused)}: end that with `kafka-zk-controller resume` first"
    if to not in found.replicas:
        return f"replica {to} does not run; these do: {names}"
    if found.released is not None:
        return "the cluster is released to Kafka's own controllers: take it back with `release --undo`"
    if not found.is_ours:
        if found.controller is None:
            return "/controller is vacant: there is nothing to switch"
        return f"broker {found.controller} holds /controller and is not a replica of ours: there is nothing to switch"
    replica = found.replicas[to]
    if replica is not None and not replica.is_ready:
        return f"replica {to} is not ready: {replica.reason}"
    return None


async def leadership(bridge: Bridge) -> Leadership:
    """The leader and the replicas that run.

    Raises:
        Disconnected, SessionEnded, Refused: ZooKeeper cannot be asked, or does not let us.
    """
    names, _ = await bridge.children(replicas.ROOT)
    ids = sorted(BrokerId(int(name)) for name in names or () if name.isdecimal())
    found, (epoch, _), phase, paused = await asyncio.gather(
        _look(bridge), bridge.get(_EPOCH.path), inspection.migration(bridge), inspection.pause_in_force(bridge)
    )
    words = await asyncio.gather(*(_replica(bridge, replica) for replica in ids))
    number = None if epoch is None else catalog.decode(_EPOCH, epoch.data)
    return Leadership(
        found.controller,
        found.is_ours,
        ControllerEpoch(number) if isinstance(number, int) else None,
        found.released,
        dict(zip(ids, words, strict=True)),
        phase,
        paused,
    )


async def _replica(bridge: Bridge, replica: BrokerId) -> Replica | None:
    address = ReplicaAddress(replica)
    try:
        node, _ = await bridge.get(address.path)
    except Refused:
        return None
    value = None if node is None else catalog.decode(address, node.data)
    return value if isinstance(value, Replica) else None


async def _wait_for(bridge: Bridge, timeout_s: float, *, is_ours: bool) -> Outcome:
    async def is_held(found: Outcome) -> bool:
        return found.controller is not None and found.is_ours is is_ours

    found = await _wait_until(bridge, timeout_s, is_held)
    return replace(found, unconfirmed=tuple(sorted((await bridge.children(replica_deletions.ROOT))[0] or ())))


async def _wait_until(bridge: Bridge, timeout_s: float, is_done: Callable[[Outcome], Awaitable[bool]]) -> Outcome:
    deadline = time.monotonic() + timeout_s
    while True:
        found = await _look(bridge)
        is_so = await is_done(found)
        if is_so or time.monotonic() >= deadline:
            return replace(found, is_done=is_so)
        await asyncio.sleep(_LOOK_EVERY_S)


def operator() -> str:
    """Who asks, for people to read."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


async def _look(bridge: Bridge) -> Outcome:
    node, _ = await bridge.get(_CONTROLLER.path)
    wanted, _ = await bridge.get(_RELEASE.path)
    claim = None if node is None else catalog.decode(_CONTROLLER, node.data)
    released = None if wanted is None else catalog.decode(_RELEASE, wanted.data)
    assert released is None or isinstance(released, Release | Malformed)
    return Outcome(
        is_done=False,
        controller=claim.broker if isinstance(claim, ControllerClaim) else None,
        is_ours=isinstance(claim, ControllerClaim) and claim.is_ours,
        released=_BY_HAND if isinstance(released, Malformed) else released,
    )
