"""How do the parts become one process? Builds and connects them; what the process does is decided by its candidacy."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal as os_signal
import time
from typing import assert_never

import structlog

from controller.brokers.dialing import PlaintextDialer
from controller.claiming import Claimant
from controller.core.candidacy.candidacy import FAILED, Candidacy, CandidacySettings
from controller.core.candidacy.events import Claimed, Event, StopAsked, Woken
from controller.core.candidacy.orders import (
    Abandon,
    BeginTerm,
    Claim,
    Drain,
    Exit,
    Release,
    Say,
    Serve,
    TermOrder,
    WakeAt,
)
from controller.core.candidacy.phases import Phase, TakeOver
from controller.leading import Leading
from controller.monitoring import Monitoring
from controller.server.api_names import api_name
from controller.server.connection import Limits
from controller.server.listener import ListenerSettings, Server
from controller.server.relay import Brokers
from controller.settings import Settings
from controller.wire.versions import parse_protocol
from metrics.exporter import Status
from zk_layout.ids import BrokerId
from zk_layout.znodes.controller import ControllerClaim

_log = structlog.get_logger(__name__)

YOUNG_OBJECTS_BEFORE_COLLECTION = 50_000


def run(settings: Settings) -> int:
    """Run the daemon until it is told to stop; the exit code."""
    gc.set_threshold(YOUNG_OBJECTS_BEFORE_COLLECTION, 50, 100)
    # It warns at every attempt; what a person has to know of the connection is said here, once.
    logging.getLogger("kazoo.client").setLevel(logging.ERROR)
    return asyncio.run(Daemon(settings).live())


class Daemon:
    """One process: one of several replicas, of which one leads."""

    def __init__(self, settings: Settings) -> None:
        """Build what lives as long as the process."""
        protocol = parse_protocol(settings.text("inter.broker.protocol.version"))
        self._own_id = BrokerId(settings.broker_id)
        self._candidacy = Candidacy(
            CandidacySettings(
                TakeOver(settings.text("controller.takeover")),
                settings.number("zookeeper.session.timeout.ms") / 1000,
            )
        )
        self._since = time.time()
        self._orders: asyncio.Queue[Claim | TermOrder | Exit] = asyncio.Queue()
        self._alarm: asyncio.TimerHandle | None = None
        self._monitoring = Monitoring(settings.text("http.host"), settings.number("http.port"), self, api_name)
        self._claimant = Claimant(settings, protocol, self._happened)
        self._leading = Leading(settings, protocol, self._claimant, self._monitoring, self._happened)
        self._server = Server(
            self._own_id,
            [ListenerSettings(listener.name, listener.host, listener.port) for listener in settings.listeners],
            brokers=Brokers(
                self._own_id,
                self._leading.live_brokers,
                PlaintextDialer(),
                settings.number("request.timeout.ms") / 1000,
            ),
            limits=Limits(
                settings.number("socket.request.max.bytes"),
                settings.number("connections.max.idle.ms") / 1000,
                settings.number("max.connections"),
            ),
            observer=self._monitoring.server,
        )
        self._monitoring.ask_through(self._server.ask)

    async def live(self) -> int:
        """Stand by, lead, stand by again, until told to stop; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (os_signal.SIGTERM, os_signal.SIGINT):
            loop.add_signal_handler(number, self._happened, StopAsked(f"{number.name} received"))
        try:
            return await self._live() if await self._listen() else FAILED
        finally:
            await self._close()

    def status(self) -> Status:
        """How this process stands."""
        candidacy = self._candidacy
        phase, seen = candidacy.phase, candidacy.holder
        claim = seen.holder if seen is not None else None
        return Status(
            phase=phase,
            broker=self._own_id,
            controller=claim.broker if isinstance(claim, ControllerClaim) else None,
            controller_epoch=seen.epoch if seen is not None else None,
            is_leader=phase is Phase.ACTIVE,
            is_ready=candidacy.is_ready,
            since=self._since,
            reason=candidacy.reason,
            set_aside=self._monitoring.set_aside,
        )

    async def _listen(self) -> bool:
        try:
            await self._monitoring.start()
            await self._server.start()
        except OSError as error:
            hint = "change listeners or http.port, or stop the process that uses the port"
            _log.error("cannot listen", reason=str(error), hint=hint)
            return False
        return True

    async def _live(self) -> int:
        async with asyncio.TaskGroup() as tasks:
            reaching = tasks.create_task(self._claimant.reach())
            code = await self._carry_out_orders(tasks)
            reaching.cancel()
        return code

    def _happened(self, event: Event) -> None:
        """Let the candidacy decide what follows; only what takes time waits for its turn."""
        before = self._candidacy.phase
        orders = self._candidacy.step((event,), asyncio.get_running_loop().time())
        if self._candidacy.phase is not before:
            self._since = time.time()
        for order in orders:
            match order:
                case Say(severity, text, details):
                    _log.log(severity, text, **details)
                case WakeAt(at):
                    self._wake_at(at)
                case Claim() | Exit() | BeginTerm() | Serve() | Drain() | Release() | Abandon():
                    self._orders.put_nowait(order)
                case _:
                    assert_never(order)

    def _wake_at(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(at, self._happened, Woken())

    async def _carry_out_orders(self, tasks: asyncio.TaskGroup) -> int:
        """One after the other; a claim goes on by itself, so that an exit need not wait for what it comes to."""
        claiming: asyncio.Task[None] | None = None
        while True:
            order = await self._orders.get()
            match order:
                case Claim(replace):
                    claiming = tasks.create_task(self._claim(replace=replace))
                case Exit(code):
                    if claiming is not None:
                        claiming.cancel()
                    return code
                case BeginTerm() | Serve() | Drain() | Release() | Abandon():
                    await self._carry_out(order)
                case _:
                    assert_never(order)

    async def _claim(self, *, replace: bool) -> None:
        outcome = await self._claimant.claim(replace=replace)
        if isinstance(outcome, Claimed):
            self._leading.won(outcome)
        self._happened(outcome)

    async def _carry_out(self, order: TermOrder) -> None:
        match order:
            case BeginTerm():
                self._leading.begin(self._server)
            case Serve():
                self._leading.serve(self._server)
            case Drain():
                self._leading.drain()
            case Release():
                await self._leading.end(self._server, is_graceful=True)
            case Abandon():
                await self._leading.end(self._server, is_graceful=False)
            case _:
                assert_never(order)

    async def _close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        await self._server.close()
        await self._claimant.close()
        await self._monitoring.stop()
        self._leading.close()
