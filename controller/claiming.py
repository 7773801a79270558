"""How does this process reach ZooKeeper, claim `/controller` there, and give it up?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from controller.brokers.dialing import PlaintextDialer
from controller.brokers.understanding import Understanding
from controller.connections.broker import Dialer
from controller.core.candidacy.events import (
    Claimed,
    ClaimFailed,
    ClaimOutcome,
    Event,
    HolderSeen,
    HolderUnknown,
    Lost,
    Reconnected,
    Resumed,
    SessionEvent,
    SessionLost,
    StartRefused,
    Suspended,
    Unreachable,
    Watching,
)
from controller.settings import Settings
from controller.wire.versions import InterBrokerProtocol
from controller.zk.answers import Disconnected, Refused, SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.connect_settings import ZooKeeperSettings
from controller.zk.session import Session
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Registration

HASTE_S = 1.0

_log = structlog.get_logger(__name__)


class Claimant:
    """The part of this process that stands for election in ZooKeeper; it decides nothing."""

    def __init__(
        self,
        settings: Settings,
        protocol: InterBrokerProtocol,
        tell: Callable[[Event], None],
        *,
        new_bridge: Callable[[ZooKeeperSettings], Bridge] = Bridge,
        dialer: Dialer | None = None,
    ) -> None:
        """Nothing is connected yet. `tell` is called on the event loop, with everything that a candidacy must know."""
        self._settings = settings
        self._new_bridge = new_bridge
        self._tell = tell
        self._own_id = BrokerId(settings.broker_id)
        self._registration = Registration(settings.advertised_endpoints, settings.rack)
        self._give_up_s = settings.number("request.timeout.ms") / 1000
        self._understanding = Understanding(protocol, settings.inter_broker_listener, dialer or PlaintextDialer())
        self.cluster_id: str | None = None
        self._is_sure = False
        self._patience: asyncio.Timeout | None = None
        self.bridge, self._session = self._new_session()

    async def reach(self) -> None:
        """Watch `/controller`, however long it takes until ZooKeeper can be reached; tells how that goes."""
        servers = self._settings.text("zookeeper.connect")
        _log.info("connecting to ZooKeeper", zookeeper=servers)
        while True:
            try:
                await self.bridge.start()
                await self._session.start()
                clash = await self._session.clash(self._registration)
                # Now rather than when a vacancy waits to be filled.
                await self._understanding.complaint(self._session.registrations)
                self._is_sure = await self._session.hindrance() is None
            except Disconnected as error:
                _log.warning("cannot reach ZooKeeper; trying again", reason=str(error))
                self._session.stop()
                self.bridge, self._session = self._new_session()
                self._tell(Unreachable(str(error)))
            except (Refused, SessionEnded) as error:
                self._tell(StartRefused(str(error)))
                return
            else:
                if clash is not None and not clash.is_our_past:
                    self._tell(clash)
                    return
                _log.info("standing by", broker=self._own_id, zookeeper=servers)
                self._tell(Watching())
                return

    async def claim(self, *, replace: bool, raise_by: int = 1) -> ClaimOutcome:
        """Try to become the controller, and what came of it; brokers must understand us first.

        What would end the term at once is found out before: a claim that is won and given up again raises the epoch.
        """
        try:
            if not self._is_sure and (reason := await self._session.hindrance()):
                return Lost(reason, needs_mending=True)
            if reason := await self._understanding.complaint(self._session.registrations):
                return Lost(reason, needs_mending=True)
            outcome = await self._session.claim(self._registration, replace=replace, raise_by=raise_by)
        except SessionEnded as error:
            return ClaimFailed(str(error))
        except Refused as error:
            return Lost(str(error), needs_mending=True)
        self._is_sure = True
        if isinstance(outcome, Claimed):
            await self._read_cluster_id()
        return outcome

    def doubt(self) -> None:
        """A term has failed: what it needs is looked at again before the next claim."""
        self._is_sure = False

    async def _read_cluster_id(self) -> None:
        """Only clients are told; a term can do without."""
        try:
            self.cluster_id = await self._session.cluster_id()
        except (Refused, SessionEnded) as error:
            _log.warning("cannot read the cluster's id", reason=str(error))

    async def give_up(self, claimed: Claimed) -> bool:
        """Give `/controller` and our registration back, as far as they are still ours; False if nobody answers."""
        try:
            async with asyncio.timeout(self._give_up_s) as self._patience:
                was_held = await self._session.release(claimed.fence_version)
            if was_held:
                _log.info("gave up /controller")
        except TimeoutError:
            _log.warning("ZooKeeper does not answer; our claim is removed when it answers or when the session expires")
            return False
        except (SessionEnded, Refused) as error:
            _log.info("nothing to give up", reason=str(error))
        return True

    def hasten(self) -> None:
        """Wait hardly any longer for ZooKeeper to answer that a claim was given up."""
        self._give_up_s = min(self._give_up_s, HASTE_S)
        if self._patience is not None and not self._patience.expired():
            with contextlib.suppress(RuntimeError):  # it is over
                self._patience.reschedule(asyncio.get_running_loop().time() + HASTE_S)

    async def close(self) -> None:
        """End the session; what is still ours in ZooKeeper goes with it."""
        self._session.stop()
        await self.bridge.stop()

    def _new_session(self) -> tuple[Bridge, Session]:
        settings = self._settings
        bridge = self._new_bridge(
            ZooKeeperSettings(
                settings.text("zookeeper.connect"),
                settings.number("zookeeper.session.timeout.ms"),
                settings.number("zookeeper.connection.timeout.ms"),
                settings.number("zookeeper.max.in.flight.requests"),
            )
        )
        return bridge, Session(bridge, self._session_changed, self._own_id)

    def _session_changed(self, event: SessionEvent) -> None:
        match event:
            case Suspended():
                _log.warning("ZooKeeper connection", state="suspended")
            case Resumed():
                _log.info("ZooKeeper connection", state="resumed")
            case Reconnected():
                _log.info("new ZooKeeper session established")
            case HolderSeen() | HolderUnknown() | SessionLost():
                pass  # what follows from it is said when it is decided
        self._tell(event)
