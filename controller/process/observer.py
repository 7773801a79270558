"""How is a cluster followed that others lead, so that its owner can see what this controller would do? It never writes.

Source: none in Kafka, whose standby brokers know nothing of a cluster that they do not lead.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from functools import partial
from typing import Final

import structlog
from msgspec.structs import replace

from controller.core.candidacy.candidacy import FAILED, Candidacy
from controller.core.candidacy.events import (
    Event,
    IdClash,
    ProtocolChanged,
    StopAsked,
    Unsound,
    Watching,
    Woken,
)
from controller.core.candidacy.holder import named
from controller.core.candidacy.orders import Exit, Say, WakeAt
from controller.core.candidacy.phases import Phase, TakeOver
from controller.core.messages.effects import Differed
from controller.http.access import http_access, log_openness
from controller.http.server import Exporter, Readers
from controller.http.status import Status
from controller.monitoring.monitoring import Monitoring
from controller.process import lifetime
from controller.process.claimant import Claimant
from controller.process.dry_term import DryTerm, DryTermParts
from controller.process.lifetime import Alarm
from controller.process.listener_security import dialer_of
from controller.process.machine_settings import machine_settings
from controller.process.pause_seen import PauseSeen
from controller.process.preflight import preflight_of
from controller.runtime.last_resort import LastResort
from controller.runtime.reclaiming import collect, dismantle
from controller.runtime.service_manager import ServiceManager
from controller.runtime.supervision import Troubles, supervised
from controller.server.inquiries import Inquiries
from controller.settings import Settings
from controller.wire.apis import api_name
from controller.zk.answers import SessionEnded
from controller.zk.read_only import ReadOnlyBridge
from zk_layout.znodes.controller import ControllerClaim

OBSERVING: Final = "observing"
PART: Final = "following the cluster"
AGAIN_AFTER_S: Final = 1.0
MOST_SHOWN: Final = 20
"""Differences from the controller that leads: the latest ones."""
_CLOSE_WITHIN_S: Final = 10.0

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> int:
    """Observe until asked to stop, and return the exit code."""
    return lifetime.run(partial(Observer, settings))


class Observer:
    """Follows a cluster, and has no part that writes to ZooKeeper, listens for clients, or commands brokers.

    Its session only reads (`ReadOnlyBridge`). The candidacy is that of any replica, in the mode that never claims.
    """

    def __init__(self, settings: Settings, last_resort: LastResort | None = None) -> None:
        """Build everything that lives as long as the process."""
        self._settings = replace(settings, candidacy=replace(settings.candidacy, take_over=TakeOver.NEVER))
        self._last_resort = last_resort
        self._service_manager = ServiceManager(os.environ)
        self._candidacy = Candidacy(self._settings.candidacy)
        self._since = time.time()
        self._pause = PauseSeen()
        self._troubles = Troubles()
        self._ended: asyncio.Queue[int] = asyncio.Queue()
        self._alarm = Alarm()
        self._obstacles: tuple[str, ...] = ()
        self._differences: tuple[str, ...] = ()
        self._term: DryTerm | None = None
        self._is_loaded = False
        self._has_looked = asyncio.Event()
        self._inquiries = Inquiries()
        self._assemble()

    def _assemble(self) -> None:
        settings, troubles = self._settings, self._troubles
        access = http_access(settings.http, troubles)
        log_openness(settings.http, access)
        self._monitoring = Monitoring(api_name, troubles)
        self._monitoring.status = self.status
        self._monitoring.ask_through(self._inquiries.ask)
        self._exporter = Exporter(
            self._monitoring.recorder,
            self,
            settings.http.address,
            moves=self._monitoring,
            readers=Readers(settings.http.allowed_hosts, access),
        )
        self._monitoring.beats = self._exporter.beat
        self._dialer = dialer_of(settings.listening, troubles=troubles)
        self._claimant = Claimant(
            settings.claim,
            preflight_of(settings, None, self._dialer, is_new_cluster=False),
            self._happened,
            new_bridge=ReadOnlyBridge,
            troubles=troubles,
            never_claims=True,
        )

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop to run it on: how long that is busy is among its metrics."""
        return self._monitoring.busy.new_loop()

    async def live(self) -> int:
        """Follow the cluster until asked to stop; return the exit code."""
        lifetime.answer_signals(self._stop_requested, self.status)
        try:
            if not await self._listen():
                return FAILED
            self._service_manager.ready(asyncio.get_running_loop())
            async with asyncio.TaskGroup() as tasks:
                parts = [tasks.create_task(self._claimant.reach()), tasks.create_task(self._follow())]
                code = await self._ended.get()
                for part in parts:
                    part.cancel()
            return code
        finally:
            await self._close()

    def status(self) -> Status:
        """The state of this process, for `/readyz` and `status`."""
        candidacy = self._candidacy
        seen, is_observing = candidacy.holder, candidacy.phase is Phase.STANDBY
        claim = seen.holder if seen is not None else None
        is_followed = is_observing and candidacy.is_ready
        status = Status(
            phase=OBSERVING if is_observing else candidacy.phase,
            broker=self._settings.claim.own_id,
            controller=claim.broker if isinstance(claim, ControllerClaim) else None,
            controller_epoch=seen.epoch if seen is not None else None,
            is_leader=False,
            is_ready=is_followed and self._is_loaded,
            since=self._since,
            reason=candidacy.reason
            if not is_followed
            else self._holder()
            if self._is_loaded
            else "reading the cluster",
            set_aside=self._monitoring.set_aside,
            warnings=self._claimant.warnings,
            failing=self._troubles.now(),
            is_released=seen is not None and seen.is_released,
            migration=self._claimant.migration.value,
            is_observing=True,
            obstacles=self._obstacles,
            differences=self._differences,
        )
        return self._pause.shown_in(status)

    def _holder(self) -> str:
        seen = self._candidacy.holder
        return "" if seen is None else named(seen)

    # ---- what happens -----------------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        """Pass an event to the candidacy, except what only concerns a replica that may lead."""
        match event:
            case Unsound(reason):
                self._judged((reason,))
                event = Watching()
            case Watching():
                self._judged(())
            case ProtocolChanged(detail):
                _log.info("the brokers have changed; reading the cluster again", detail=detail)
                if self._term is not None:
                    self._term.renew()
                return
            case IdClash():
                return
            case _:
                pass
        orders = self._candidacy.step((event,), asyncio.get_running_loop().time())
        self._pause.note(self._candidacy.holder)
        for order in orders:
            match order:
                case Say(severity, text, details):
                    _log.log(severity, text, **details)
                case WakeAt(at):
                    self._alarm.ring(at, partial(self._happened, Woken()))
                case Exit(code):
                    self._ended.put_nowait(code)
                case _:
                    raise TypeError(f"{type(order).__name__} is no order for a process that never claims")

    def _judged(self, obstacles: tuple[str, ...]) -> None:
        if obstacles != self._obstacles:
            for obstacle in obstacles:
                _log.warning("a replica with these settings would not lead this cluster", reason=obstacle)
        self._obstacles = obstacles
        self._has_looked.set()

    def _stop_requested(self, reason: str) -> None:
        self._service_manager.stopping()
        if self._last_resort is not None:
            self._last_resort.end_within(_CLOSE_WITHIN_S, FAILED)
        self._happened(StopAsked(reason))

    # ---- following --------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Follow the cluster in each session. Begins when the brokers have been asked for their settings once."""
        await self._has_looked.wait()
        await supervised(PART, self._follow_once, self._troubles, again_after_s=AGAIN_AFTER_S, expected=(SessionEnded,))

    async def _follow_once(self) -> None:
        bridge = self._claimant.bridge
        assert isinstance(bridge, ReadOnlyBridge)
        term = self._term = DryTerm(self._parts(bridge))
        try:
            await term.live(self._loaded)
        finally:
            self._is_loaded, self._term = False, None
            self._inquiries.refuse_all()
            self._monitoring.observing_ended()
            await term.end()
            await dismantle(term.machine)
            del term
            collect()

    def _loaded(self) -> None:
        assert self._term is not None
        self._is_loaded = True
        self._troubles.right(PART)
        self._inquiries.begin_term(self._term.emit)
        self._monitoring.observing_began(self._term.machine)

    def _parts(self, bridge: ReadOnlyBridge) -> DryTermParts:
        settings, claimant, monitoring = self._settings.term, self._claimant, self._monitoring
        of_machine = machine_settings(settings, claimant.protocol, claimant.cluster_id, claimant.inherited)
        return DryTermParts(
            bridge=bridge,
            machine_settings=replace(of_machine, is_observing=True, authorizer=None),
            protocol=claimant.protocol,
            inter_broker_listener=settings.inter_broker_listener,
            answer=self._inquiries.answer,
            differed=self._differed,
            counter=monitoring,
            turn_observers=(),
            dialer=self._dialer,
        )

    def _differed(self, difference: Differed) -> None:
        _log.warning("the controller that leads decided otherwise", kind=difference.outcome, text=difference.text)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._differences = (*self._differences, f"{at} {difference.outcome}: {difference.text}")[-MOST_SHOWN:]

    # ---- beginning and end ------------------------------------------------------------------------------------

    async def _listen(self) -> bool:
        try:
            await self._exporter.start()
            self._monitoring.start()
        except OSError as error:
            hint = "change http.port, or stop the process that uses the port"
            _log.error("cannot listen", reason=str(error), hint=hint)
            return False
        return True

    async def _close(self) -> None:
        self._alarm.cancel()
        await self._claimant.close()
        self._monitoring.stop()
        await self._exporter.stop()
        self._service_manager.close()
