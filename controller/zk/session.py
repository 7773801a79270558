"""Who is the controller, and how does this process take and give up that role?

Source: Kafka's KafkaController.elect and KafkaZkClient.registerControllerAndIncrementControllerEpoch. Unlike Kafka, we
register, replace the former holder, raise the epoch and take `/controller` in one transaction; and after a lost answer,
a claim counts as ours only if the ephemeral znode belongs to our own session.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from controller.core.candidacy import events
from controller.zk import inspection, preparation, protocol
from controller.zk.answers import Change, ConnectionState, Disconnected, Refused, Reply, SessionEnded, WatchEvent
from controller.zk.bridge import Bridge
from controller.zk.protocol import Node
from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, SessionId, ZnodeVersion
from zk_layout.znodes import brokers, controller
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.challenge import UNANSWERED, ChallengeAddress
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.pause import Pause, PauseAddress
from zk_layout.znodes.release import ReleaseAddress
from zk_layout.znodes.switchover import Switchover, SwitchoverAddress

_CONTROLLER: Final = ControllerAddress()
_EPOCH: Final = ControllerEpochAddress()
_RELEASE: Final = ReleaseAddress()
_PAUSE: Final = PauseAddress()
_SWITCHOVER: Final = SwitchoverAddress()
_PATIENCE_S: Final = 0.05
_LOOK_AGAIN_S: Final = 0.5
_LONGEST_LOOK_AGAIN_S: Final = 8.0
_LOOK_AT_LEAST_EVERY_S: Final = 30.0

HIGHEST_EPOCH: Final = 2**31 - 1

_log = structlog.get_logger(__name__)


class _View(Struct, frozen=True):
    holder: Node | None
    epoch: Node | None
    registration: Node | None


class Session:
    """Our part in the election, for as long as the process lives. `emit` is called on the event loop."""

    def __init__(self, bridge: Bridge, emit: Callable[[events.SessionEvent], None], own_id: BrokerId) -> None:
        self._bridge = bridge
        self._emit = emit
        self._own_id = own_id
        self._own_path = BrokerAddress(own_id).path
        self._look_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._state = bridge.state
        self._epoch: Node | None = None
        self._is_vacant_news = False
        self._is_released = False
        self._pause: Pause | None = None

    def start(self) -> None:
        """Watch `/controller`. Writes nothing."""
        self._state = self._bridge.state
        self._bridge.watch_listeners.append(self._on_watch)
        self._bridge.state_listeners.append(self._on_state)
        self._look_due.set()
        self._task = asyncio.create_task(self._keep_looking())

    def stop(self) -> None:
        """Emit nothing more. What we hold stays until `release` or the end of the session."""
        if self._task is not None:
            self._task.cancel()
        if self._on_watch in self._bridge.watch_listeners:
            self._bridge.watch_listeners.remove(self._on_watch)
            self._bridge.state_listeners.remove(self._on_state)

    async def cluster_id(self) -> str | None:
        """The cluster's id; None until a broker has run."""
        return await preparation.cluster_id(self._bridge)

    async def prepare(self) -> None:
        """Create the znodes a controller needs that are missing.

        Raises:
            Refused, SessionEnded: see `preparation.create_parents`.
        """
        await preparation.create_parents(self._bridge)

    async def blocker(self) -> str | None:
        """Why no process could load a term here: something unreadable that every term needs. None if there is
        nothing."""
        return await preparation.blocker(self._bridge)

    async def clash(self, registration: Registration) -> events.IdClash | None:
        """The other process that holds our id, if any; a claim finds that out, too.

        Raises:
            SessionEnded: the answer is unknown.
        """
        found = (await self._view()).registration
        return None if found is None or _is_of(found, self._bridge.session) else self._clash(found, registration)

    async def claim(
        self,
        registration: Registration,
        *,
        replace: bool,
        raise_by: int = 1,
        replaces_ours: bool = False,
        surpass: int = -1,
    ) -> events.Claimed | events.Lost | events.IdClash:
        """Register as a broker and become controller in one transaction. `replace` allows replacing a native
        controller, `replaces_ours` another replica.

        The controller epoch rises by `raise_by`, or as far above `surpass` as needed, up to the highest that brokers
        accept.

        Raises:
            SessionEnded: the session has expired; nothing is held.
            Refused: ZooKeeper does not let us.
        """
        session = self._bridge.session
        attempted: ControllerEpoch | None = None
        is_in_doubt = False
        while True:
            view = self._expected_view() or await self._view()
            self._same_session(session)
            epoch = None if view.epoch is None else catalog.decode(_EPOCH, view.epoch.data)
            if view.epoch is None:
                first = self._create(_EPOCH.path, controller.encode_epoch(ControllerEpoch(0)))
                if (await self._bridge.read(first)).code == protocol.NO_NODE:
                    await preparation.create_parents(self._bridge)
                continue
            if not isinstance(epoch, int):
                reason = epoch.reason if isinstance(epoch, Malformed) else epoch
                return events.Lost(f"{_EPOCH.path} does not hold an epoch: {reason}", needs_mending=True)
            if is_in_doubt and attempted == epoch and (claimed := self._adopted(view, epoch, session)) is not None:
                return claimed
            obstacle = self._obstacle(view, registration, session, replace=replace, replaces_ours=replaces_ours)
            if obstacle is not None:
                return obstacle
            if is_in_doubt and attempted is not None and epoch >= attempted:
                return events.Lost(f"another process raised the controller epoch to {epoch} first")
            attempted = _raised(epoch, raise_by, surpass)
            election = self._election(view, registration, attempted)
            try:
                reply = await self._bridge.ask(protocol.transaction(election))
            except Disconnected:
                # It may have been carried out: the next look tells.
                is_in_doubt = True
                await asyncio.sleep(_PATIENCE_S)
                continue
            self._same_session(session)
            if _is_accepted(reply):
                return _claimed(view, attempted, reply)
            is_in_doubt = False
            await self._refused(reply, election)

    async def claim_unanswered(
        self, registration: Registration, unanswered: events.Unanswered, *, raise_by: int = 1, surpass: int = -1
    ) -> events.Claimed | events.Lost | events.IdClash:
        """Replace the leader that we have challenged, in one transaction that removes our challenge, and fails if it
        has been answered or if another controller leads. It is tried once, ahead of all requests that wait to be sent:
        if ZooKeeper is lost meanwhile, the leader may have had no chance to answer.

        Raises:
            SessionEnded: the session has expired; nothing is held.
            Refused: ZooKeeper does not let us.
        """
        session = self._bridge.session
        view = await self._view(ahead=True)
        self._same_session(session)
        if view.epoch is None or view.epoch.stat.version != unanswered.epoch_version:
            return events.Lost("another controller leads")
        obstacle = self._obstacle(view, registration, session, replace=False, replaces_ours=True)
        if obstacle is not None:
            return obstacle
        attempted = _raised(unanswered.epoch, raise_by, surpass)
        removal = protocol.Delete(self._bridge.full(ChallengeAddress.path), UNANSWERED)
        election = [removal, *self._election(view, registration, attempted)]
        try:
            reply = await self._bridge.ask(protocol.transaction(election), ahead=True)
        except Disconnected:
            view = await self._view()
            self._same_session(session)
            return self._adopted(view, attempted, session) or events.Lost("ZooKeeper was lost during the claim")
        self._same_session(session)
        if _is_accepted(reply):
            return _claimed(view, attempted, reply)
        await self._refused(reply, election)
        refused = protocol.refusal(reply.value) if reply.code == protocol.OK else None
        has_answered = refused is not None and refused[0] == 0
        return events.Lost("the leader has answered the challenge" if has_answered else "another controller leads")

    async def _refused(self, reply: Reply, election: Sequence[protocol.Operation]) -> None:
        """Go on if the next look can show the cause; raise anything else."""
        code, path = reply.code, _CONTROLLER.path
        if code == protocol.OK and (refused := protocol.refusal(reply.value)) is not None:
            at, code = refused
            path = election[at].path
        if code == protocol.NO_NODE:
            await preparation.create_parents(self._bridge)
        elif code not in (protocol.NODE_EXISTS, protocol.BAD_VERSION):
            raise Refused(path, code)

    async def release(self, fence: ZnodeVersion) -> bool:
        """Give up `/controller` and our registration in one transaction. True if `/controller` was still ours.

        Raises:
            SessionEnded: nothing is held any more.
        """
        session = self._bridge.session
        was_holder = False
        is_fenced = False
        while True:
            view = await self._view()
            self._same_session(session)
            operations: list[protocol.Operation] = []
            if _is_of(view.holder, session) and not is_fenced:
                was_holder = True
                operations += (
                    protocol.Check(self._bridge.full(_EPOCH.path), fence),
                    protocol.Delete(self._bridge.full(_CONTROLLER.path), -1),
                )
            if _is_of(view.registration, session):
                operations.append(protocol.Delete(self._bridge.full(self._own_path), -1))
            if not operations:
                return was_holder and not is_fenced
            try:
                reply = await self._bridge.ask(protocol.transaction(operations))
            except Disconnected:
                await asyncio.sleep(_PATIENCE_S)
                continue
            if _is_accepted(reply):
                return was_holder and not is_fenced
            if reply.code != protocol.OK:
                raise Refused(_CONTROLLER.path, reply.code)
            is_fenced = was_holder and protocol.refusal(reply.value) == (0, protocol.BAD_VERSION)

    async def _view(self, *, ahead: bool = False) -> _View:
        # The epoch first: any claim after it was read raises the epoch, which makes our transaction fail.
        (epoch, _), (holder, _), (registration, _) = await asyncio.gather(
            *(self._bridge.get(path, ahead=ahead) for path in (_EPOCH.path, _CONTROLLER.path, self._own_path))
        )
        return _View(holder, epoch, registration)

    def _expected_view(self) -> _View | None:
        """The state expected just after `/controller` was deleted: looking takes time, and brokers compete for it.

        If anything differs the transaction fails, and is made again after a real look.
        """
        is_news, self._is_vacant_news = self._is_vacant_news, False
        return _View(None, self._epoch, None) if is_news and self._epoch is not None else None

    def _same_session(self, session: SessionId) -> None:
        if self._bridge.session != session or self._bridge.state is ConnectionState.LOST:
            raise SessionEnded("the session expired during the election")

    def _adopted(self, view: _View, epoch: int, session: SessionId) -> events.Claimed | None:
        """Our election whose answer was lost: the session is ours, and the transaction that raised the epoch made
        it."""
        holder, registration = view.holder, view.registration
        if holder is None or registration is None or view.epoch is None:
            return None
        is_ours = _is_of(holder, session) and _is_of(registration, session)
        if not is_ours or holder.stat.czxid != view.epoch.stat.mzxid:
            return None
        czxid = BrokerEpoch(registration.stat.czxid)
        return events.Claimed(ControllerEpoch(epoch), view.epoch.stat.version, czxid)

    def _obstacle(
        self, view: _View, registration: Registration, session: SessionId, *, replace: bool, replaces_ours: bool
    ) -> events.Lost | events.IdClash | None:
        if view.registration is not None and not _is_of(view.registration, session):
            return self._clash(view.registration, registration)
        holder = view.holder
        if holder is None or _is_of(holder, session):
            return None
        claim = catalog.decode(_CONTROLLER, holder.data)
        name = f"broker {claim.broker}" if isinstance(claim, ControllerClaim) else "an unreadable claim"
        if holder.stat.owner == 0:
            reason = f"{_CONTROLLER.path} is held by {name} without a session, as in a migration to KRaft"
            return events.Lost(reason, needs_mending=True)
        is_ours = isinstance(claim, ControllerClaim) and claim.is_ours
        if not (replaces_ours if is_ours else replace):
            return events.Lost(f"{_CONTROLLER.path} is held by {name}")
        return None

    def _clash(self, found: Node, wanted: Registration) -> events.IdClash:
        value = catalog.decode(BrokerAddress(self._own_id), found.data)
        if not isinstance(value, Registration):
            return events.IdClash(f"id {self._own_id} is registered with unreadable data by another session", False)
        where = ", ".join(map(str, value.endpoints))
        if value.is_ours and value.endpoints == wanted.endpoints:
            return events.IdClash(f"id {self._own_id} is still registered by our former session ({where})", True)
        kind = "another controller process" if value.is_ours else "a broker"
        return events.IdClash(
            f"id {self._own_id} belongs to {kind} at {where}; give this controller an id of its own", False
        )

    def _election(self, view: _View, registration: Registration, epoch: ControllerEpoch) -> list[protocol.Operation]:
        assert view.epoch is not None
        data = brokers.encode(msgspec.structs.replace(registration, is_ours=True))
        claim = ControllerClaim(self._own_id, is_ours=True, timestamp_ms=int(time.time() * 1000))
        full = self._bridge.full
        operations: list[protocol.Operation] = []
        if view.registration is None:
            operations.append(self._create(self._own_path, data, ephemeral=True))
        else:
            operations.append(protocol.SetData(full(self._own_path), data, view.registration.stat.version))
        if view.holder is not None:
            operations.append(protocol.Delete(full(_CONTROLLER.path), view.holder.stat.version))
        operations += (
            self._create(_CONTROLLER.path, controller.encode_claim(claim), ephemeral=True),
            protocol.SetData(full(_EPOCH.path), controller.encode_epoch(epoch), view.epoch.stat.version),
        )
        return operations

    def _create(self, path: str, data: bytes, *, ephemeral: bool = False) -> protocol.Create:
        return protocol.Create(self._bridge.full(path), data, ephemeral, self._bridge.acl(path))

    def _on_watch(self, event: WatchEvent) -> None:
        if event.path not in (_CONTROLLER.path, _RELEASE.path, _SWITCHOVER.path, _PAUSE.path):
            return
        if event.path == _RELEASE.path:
            # Known at once: the vacancy that follows a release must not look like one to fill.
            self._is_released = event.change is not Change.DELETED
        elif event.path == _CONTROLLER.path and event.change is Change.DELETED and self._epoch is not None:
            self._is_vacant_news = True
            self._emit(events.HolderSeen(None, False, _known(self._epoch), self._is_released, pause=self._pause))
        self._look_due.set()

    def _on_state(self, state: ConnectionState) -> None:
        before, self._state = self._state, state
        match state:
            case ConnectionState.SUSPENDED:
                self._emit(events.Suspended())
            case ConnectionState.LOST:
                self._emit(events.SessionLost())
            case ConnectionState.CONNECTED:
                self._emit(events.Reconnected() if before is ConnectionState.LOST else events.Resumed())
                self._look_due.set()

    async def _keep_looking(self) -> None:
        wait_s = _LOOK_AGAIN_S
        while True:
            # A server that does not let us read a znode reports no changes of it either.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AT_LEAST_EVERY_S):
                    await self._look_due.wait()
            self._look_due.clear()
            try:
                await self._look()
            except SessionEnded:
                continue  # the next session makes it due again
            except Refused as error:
                self._emit(events.HolderUnknown(str(error)))
            except Exception as error:
                _log.exception("looking at /controller failed")
                self._emit(events.HolderUnknown(f"{type(error).__name__}: {error}"))
            else:
                wait_s = _LOOK_AGAIN_S
                continue
            asyncio.get_running_loop().call_later(wait_s, self._look_due.set)
            wait_s = min(2 * wait_s, _LONGEST_LOOK_AGAIN_S)

    async def _look(self) -> None:
        (released, _), _, (node, _), (epoch_node, _), asking, self._pause = await asyncio.gather(
            self._bridge.exists(_RELEASE.path, watch=True),
            self._bridge.exists(_CONTROLLER.path, watch=True),
            self._bridge.get(_CONTROLLER.path),
            self._bridge.get(_EPOCH.path),
            self._look_for_switchover(),
            inspection.pause_in_force(self._bridge, watch=True),
        )
        holder = None if node is None else catalog.decode(_CONTROLLER, node.data)
        assert holder is None or isinstance(holder, ControllerClaim | Malformed)
        self._epoch = epoch_node
        self._is_vacant_news = False
        is_mine = _is_of(node, self._bridge.session)
        self._is_released = released is not None
        is_named = asking is not None and node is not None and _is_of(node, asking)
        is_wanted = asking is not None and not is_named
        self._emit(
            events.HolderSeen(
                holder, is_mine, _known(epoch_node), self._is_released, is_wanted, self._pause, is_named=is_named
            )
        )

    async def _look_for_switchover(self) -> SessionId | None:
        """The session that waits for this replica to lead: an operator's, or that of a leader that stops; None if there
        is none, or its request cannot be read."""
        if (await self._bridge.exists(_SWITCHOVER.path, watch=True))[0] is None:
            return None
        try:
            node, _ = await self._bridge.get(_SWITCHOVER.path)
        except Refused:
            return None
        asked = None if node is None else catalog.decode(_SWITCHOVER, node.data)
        is_for_us = isinstance(asked, Switchover) and asked.to == self._own_id
        return SessionId(node.stat.owner) if node is not None and is_for_us else None


def _raised(epoch: int, raise_by: int, surpass: int) -> ControllerEpoch:
    raised = max(epoch + raise_by, surpass + 1)
    return ControllerEpoch(raised if raised <= HIGHEST_EPOCH else epoch + 1)


def _claimed(view: _View, epoch: ControllerEpoch, reply: Reply) -> events.Claimed:
    """The claim that this reply has accepted."""
    assert view.epoch is not None
    czxid = reply.zxid if view.registration is None else view.registration.stat.czxid
    return events.Claimed(epoch, ZnodeVersion(view.epoch.stat.version + 1), BrokerEpoch(czxid))


def _known(epoch_node: Node | None) -> ControllerEpoch:
    """The epoch; 0 if it is absent or unreadable."""
    epoch = None if epoch_node is None else catalog.decode(_EPOCH, epoch_node.data)
    return ControllerEpoch(epoch if isinstance(epoch, int) else 0)


def _is_of(node: Node | None, session: SessionId) -> bool:
    return node is not None and node.stat.owner == session


def _is_accepted(reply: Reply) -> bool:
    return reply.code == protocol.OK and protocol.refusal(reply.value) is None
