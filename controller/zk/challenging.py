"""How does a standby ask in ZooKeeper whether the leader lives?

It creates a znode, which the leader answers by a write. Only a leader that is a replica of ours, and says of itself in
the same session that it answers, is challenged. These requests go ahead of all others that wait to be sent.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from controller.core.candidacy.challenger import Suspect
from controller.core.candidacy.events import Unanswered
from controller.zk import protocol
from controller.zk.answers import Refused, Reply
from controller.zk.bridge import Bridge
from controller.zk.protocol import Node
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes import challenge
from zk_layout.znodes.challenge import UNANSWERED, Challenge, ChallengeAddress
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.replicas import Replica, ReplicaAddress

_CHALLENGE: Final = ChallengeAddress()
_CONTROLLER: Final = ControllerAddress()
_EPOCH: Final = ControllerEpochAddress()

ANSWERED: Final = "the leader has answered already"
"""Why there is no challenge whose leader was quicker than the look whether it stands: the leader lives."""


async def make(bridge: Bridge, suspect: Suspect, own_id: BrokerId) -> Unanswered | str:
    """Challenge the leader, and watch for the answer; return the challenge, or why there is none.

    Raises:
        SessionEnded, Disconnected: a challenge may have been made; `withdraw` removes it.
        Refused: ZooKeeper does not let us.
    """
    epoch, holder, replica = await asyncio.gather(
        _get(bridge, _EPOCH.path), _get(bridge, _CONTROLLER.path), _get(bridge, ReplicaAddress(suspect.broker).path)
    )
    if epoch is None or catalog.decode(_EPOCH, epoch.data) != suspect.epoch:
        return "another controller leads"
    if (obstacle := _obstacle(suspect, holder, replica)) is not None:
        return obstacle
    data = challenge.encode(Challenge(own_id, int(time.time() * 1000)))
    full, acl = bridge.full(_CHALLENGE.path), bridge.acl(_CHALLENGE.path)
    create = protocol.Create(full, data, ephemeral=True, acl=acl)
    operations = (protocol.Check(bridge.full(_EPOCH.path), epoch.stat.version), create)
    reply = await bridge.ask(protocol.transaction(operations), ahead=True)
    refused = (1, reply.code) if reply.code != protocol.OK else protocol.refusal(reply.value)
    if refused is not None:
        return await _why_refused(bridge, *refused)
    stands = await bridge.ask(protocol.Exists(full, watch=True), ahead=True)
    if stands.value is None or stands.value.version != UNANSWERED:
        await withdraw(bridge)
        return "the challenge is gone" if stands.value is None else ANSWERED
    return Unanswered(suspect.epoch, epoch.stat.version)


async def withdraw(bridge: Bridge) -> None:
    """Remove our challenge, if there is one.

    Raises:
        SessionEnded: it has gone with the session.
        Disconnected, Refused: it may still be there.
    """
    full = bridge.full(_CHALLENGE.path)
    while True:
        found = (await bridge.ask(protocol.Exists(full), ahead=True)).value
        if found is None or found.owner != bridge.session:
            return
        reply = await bridge.ask(protocol.Delete(full, found.version), ahead=True)
        if reply.code not in (protocol.OK, protocol.NO_NODE, protocol.BAD_VERSION):
            raise Refused(_CHALLENGE.path, reply.code)
        if reply.code != protocol.BAD_VERSION:  # it has not been answered just now
            return


async def sync(bridge: Bridge) -> None:
    """Wait until ZooKeeper has carried out everything that was asked of it before.

    Raises:
        SessionEnded, Disconnected: it did not answer.
    """
    await bridge.ask(protocol.Sync(bridge.full("/")), ahead=True)


async def _get(bridge: Bridge, path: str) -> Node | None:
    reply: Reply = await bridge.ask(protocol.GetData(bridge.full(path), watch=False), ahead=True)
    if reply.code not in (protocol.OK, protocol.NO_NODE):
        raise Refused(path, reply.code)
    node: Node | None = reply.value
    return node


def _obstacle(suspect: Suspect, holder: Node | None, replica: Node | None) -> str | None:
    """Why this holder of `/controller` may not be challenged; None if it may."""
    claim = None if holder is None else catalog.decode(_CONTROLLER, holder.data)
    if holder is None or not isinstance(claim, ControllerClaim) or claim.broker != suspect.broker:
        return "another controller leads"
    if not claim.is_ours or claim.kraft_epoch is not None or holder.stat.owner == 0:
        return "the leader is no replica of this controller"
    shown = None if replica is None else catalog.decode(ReplicaAddress(suspect.broker), replica.data)
    if replica is None or replica.stat.owner != holder.stat.owner or not isinstance(shown, Replica):
        return f"the leader is not among {ReplicaAddress(suspect.broker).path.rpartition('/')[0]}"
    return None if shown.answers_challenges else "the leader's release does not answer challenges"


async def _why_refused(bridge: Bridge, at: int, code: int) -> str:
    if code == protocol.BAD_VERSION:
        return "another controller leads"
    if code != protocol.NODE_EXISTS:
        raise Refused((_EPOCH.path, _CHALLENGE.path)[at], code)
    reply = await bridge.ask(protocol.Exists(bridge.full(_CHALLENGE.path)), ahead=True)
    if reply.value is not None and reply.value.owner == bridge.session:
        await withdraw(bridge)
        return "a former challenge had to be removed first"
    return "another replica challenges it"
