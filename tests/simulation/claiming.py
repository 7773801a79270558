"""What does ZooKeeper make of a claim on `/controller`, and of giving it up? As `controller.zk.session` asks for it."""

from __future__ import annotations

from controller.core.candidacy.events import Claimed, HolderSeen, IdClash, Lost
from tests.simulation.zookeeper import CheckVersion, MakeNode, Operation, RemoveNode, SetData, ZooKeeper
from zk_layout import catalog
from zk_layout.facts import Malformed
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, SessionId, ZnodeVersion
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim

CLAIM = "/controller"
EPOCH = "/controller_epoch"
RELEASED = "/kafka_zk_controller/released"


def look(zookeeper: ZooKeeper, session: SessionId) -> HolderSeen:
    """Who holds `/controller`; watched from now on, as is whether the cluster is released."""
    released = zookeeper.get(session, RELEASED, watch=True)
    held = zookeeper.get(session, CLAIM, watch=True)
    holder = None if held is None else catalog.decode(ControllerAddress(), held[0])
    assert holder is None or isinstance(holder, ControllerClaim | Malformed)
    is_mine = held is not None and held[1].owner == session
    return HolderSeen(holder, is_mine, _epoch(zookeeper), is_released=released is not None)


def claim(
    zookeeper: ZooKeeper, session: SessionId, own_id: BrokerId, *, replace: bool, is_forced: bool
) -> Claimed | Lost | IdClash:
    """One transaction registers us, takes `/controller` and raises the epoch, unless somebody stands in the way.

    `is_forced`: whoever holds `/controller` is replaced.

    Raises:
        SessionExpired: nothing is held.
    """
    held = zookeeper.get(session, CLAIM)
    own = f"/brokers/ids/{own_id}"
    registered = zookeeper.get(session, own)
    operations: list[Operation] = []
    if registered is not None:
        if registered[1].owner != session and not is_forced:
            return IdClash(f"id {own_id} is still registered by our former session", is_our_past=True)
        operations.append(RemoveNode(own))
    if held is not None:
        former = catalog.decode(ControllerAddress(), held[0])
        assert isinstance(former, ControllerClaim)
        is_another = held[1].owner != session
        if is_another and not is_forced and (former.is_ours or not replace):
            return Lost(f"{CLAIM} is held by broker {former.broker}")
        operations.append(RemoveNode(CLAIM, held[1].version))
        theirs = f"/brokers/ids/{former.broker}"
        if is_another and former.is_ours and theirs != own and theirs in zookeeper.nodes:
            operations.append(RemoveNode(theirs))
    registration = Registration((Endpoint("PLAINTEXT", f"controller-{own_id}", 9092),))
    operations += (
        SetData(EPOCH, str(_epoch(zookeeper) + 1).encode(), zookeeper.nodes[EPOCH].version),
        MakeNode(CLAIM, catalog.encode(ControllerClaim(own_id, is_ours=True)), is_ephemeral=True),
        MakeNode(own, catalog.encode(registration), is_ephemeral=True),
    )
    errors = zookeeper.multi(session, operations).errors
    assert not errors, errors
    return _claimed(zookeeper, own_id)


def adopt(zookeeper: ZooKeeper, session: SessionId, own_id: BrokerId, since: ControllerEpoch) -> Claimed | None:
    """The claim whose answer was lost: ours by session, and made after this epoch.

    Raises:
        SessionExpired: nothing is held.
    """
    held = zookeeper.get(session, CLAIM)
    is_ours = held is not None and held[1].owner == session
    return _claimed(zookeeper, own_id) if is_ours and _epoch(zookeeper) > since else None


def give_up(zookeeper: ZooKeeper, session: SessionId, own_id: BrokerId, claimed: Claimed) -> None:
    """Give `/controller` and our registration back, as far as they are still ours.

    Raises:
        SessionExpired: nothing is held any more.
    """
    operations: list[Operation] = []
    held, registered = zookeeper.get(session, CLAIM), zookeeper.get(session, f"/brokers/ids/{own_id}")
    if held is not None and held[1].owner == session:
        operations += (CheckVersion(EPOCH, claimed.fence_version), RemoveNode(CLAIM))
    if registered is not None and registered[1].owner == session:
        operations.append(RemoveNode(f"/brokers/ids/{own_id}"))
    if operations:
        zookeeper.multi(session, operations)


def _epoch(zookeeper: ZooKeeper) -> ControllerEpoch:
    return ControllerEpoch(int(zookeeper.nodes[EPOCH].data))


def _claimed(zookeeper: ZooKeeper, own_id: BrokerId) -> Claimed:
    broker_epoch = BrokerEpoch(zookeeper.nodes[f"/brokers/ids/{own_id}"].czxid)
    return Claimed(_epoch(zookeeper), ZnodeVersion(zookeeper.nodes[EPOCH].version), broker_epoch)
