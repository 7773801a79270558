"""How are moves paused, and how do they go on? For the commands `pause` and `resume`.

Every replica watches the znode of the pause. The one that leads begins no move as long as it exists, and says in its
own znode that it knows.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from msgspec import Struct

from controller.commands import handover
from controller.zk import preparation, protocol
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from zk_layout.ids import BrokerId
from zk_layout.znodes import pause as pauses
from zk_layout.znodes.pause import Pause, PauseAddress

_PAUSE: Final = PauseAddress()
_LOOK_EVERY_S: Final = 0.1


class Outcome(Struct, frozen=True):
    """Whether the leader knows what was asked for, and who leads.

    Shape:
        `paused` is what the znode says, None where it does not exist; `was_so`: it was paused, or not, already.
        `controller` is None while `/controller` is vacant; `is_ours` says whether the holder is a replica of ours.
        `is_known`: the leader is one and has taken notice.
    """

    paused: Pause | None
    was_so: bool
    controller: BrokerId | None
    is_ours: bool
    is_known: bool


async def pause(bridge: Bridge, reason: str, *, timeout_s: float) -> Outcome:
    """Let no move begin; wait until the leader knows. An earlier pause stays as it is.

    Raises:
        Disconnected, SessionEnded, Refused: ZooKeeper cannot be asked, or does not let us.
    """
    wanted = Pause(handover.operator(), int(time.time() * 1000), reason)
    create = protocol.Create(bridge.full(_PAUSE.path), pauses.encode(wanted), acl=bridge.acl(_PAUSE.path))
    reply = await bridge.read(create)
    if reply.code == protocol.NO_NODE:  # no replica has run yet
        await preparation.create_missing(bridge, _PAUSE.path.rpartition("/")[0])
        reply = await bridge.read(create)
    if reply.code not in (protocol.OK, protocol.NODE_EXISTS):
        raise Refused(_PAUSE.path, reply.code)
    return await _wait(bridge, timeout_s, was_so=reply.code == protocol.NODE_EXISTS, is_paused=True)


async def resume(bridge: Bridge, *, timeout_s: float) -> Outcome:
    """Let moves begin again; wait until the leader knows.

    Raises:
        Disconnected, SessionEnded, Refused: ZooKeeper cannot be asked, or does not let us.
    """
    reply = await bridge.read(protocol.Delete(bridge.full(_PAUSE.path), -1))
    if reply.code not in (protocol.OK, protocol.NO_NODE):
        raise Refused(_PAUSE.path, reply.code)
    return await _wait(bridge, timeout_s, was_so=reply.code == protocol.NO_NODE, is_paused=False)


async def _wait(bridge: Bridge, timeout_s: float, *, was_so: bool, is_paused: bool) -> Outcome:
    """Wait for the leader's word; a native controller, or none, gives none."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = await handover.leadership(bridge)
        leader = found.replicas.get(found.controller) if found.controller is not None else None
        is_known = found.is_ours and leader is not None and leader.is_paused is is_paused
        if is_known or not found.is_ours or time.monotonic() >= deadline:
            return Outcome(found.paused, was_so, found.controller, found.is_ours, is_known)
        await asyncio.sleep(_LOOK_EVERY_S)
