"""How do the parts become one process? Builds and connects them; the candidacy decides what the process does."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

import structlog
from msgspec.structs import replace

from controller import logs
from controller.core.candidacy.candidacy import FAILED, Candidacy
from controller.core.candidacy.challenger import Suspect
from controller.core.candidacy.events import (
    Challenged,
    Claimed,
    Event,
    Lost,
    StopAsked,
    TakeOverChosen,
    Unanswered,
    Woken,
)
from controller.core.candidacy.orders import (
    Abandon,
    BeginTerm,
    Claim,
    Drain,
    Exit,
    Release,
    Renew,
    Say,
    Serve,
    TermOrder,
    WakeAt,
)
from controller.core.candidacy.phases import Phase, TakeOver
from controller.core.clients.authorization import anybody
from controller.core.messages.commands import LiveBroker
from controller.core.messages.effects import Measured, Notice
from controller.following.cluster import ClusterFollower
from controller.following.credentials import CredentialsFollower
from controller.following.quotas import QuotasFollower
from controller.following.rights import RightsInForce
from controller.following.standby import Standby
from controller.http.access import http_access, log_openness
from controller.http.server import Exporter, Readers
from controller.http.status import Status
from controller.monitoring import authorizer_log
from controller.monitoring.authorizer_log import AccessLog, no_reason
from controller.monitoring.monitoring import Monitoring
from controller.preflight.findings import Check
from controller.process import lifetime
from controller.process.claimant import Claimant
from controller.process.leader_pulse import LeaderPulse
from controller.process.leader_watch import LeaderWatch, Pulse
from controller.process.lifetime import Alarm
from controller.process.listener_security import KnownUsers, NoUsers, dialer_of, listener_access, wants_users
from controller.process.machine_settings import watched_in_term
from controller.process.pause_seen import PauseSeen
from controller.process.preflight import preflight_of, wanted_of
from controller.process.replica_znode import ReplicaZnode
from controller.process.rereading import SettingsInForce
from controller.process.terms import Followed, Terms
from controller.runtime.last_resort import LastResort
from controller.runtime.service_manager import ServiceManager
from controller.runtime.supervision import Troubles
from controller.server.limits import by_address, connections_within
from controller.server.listener import ListenerSettings, Server
from controller.server.relay import READ_AHEAD_BYTES, Brokers
from controller.settings import Settings
from controller.settings.limits import Limits
from controller.settings.listening import Listening
from controller.settings.own_configs import own_configs
from controller.wire.apis import api_name
from controller.zk.bridge import Bridge
from controller.zk.contact import Contact
from zk_layout.ids import BrokerId
from zk_layout.znodes.controller import ControllerClaim

_log = structlog.get_logger(__name__)

_CLOSE_WITHIN_S = 10.0


def run(settings: Settings, read: Callable[[], Settings], *, is_new_cluster: bool = False) -> int:
    """Run the daemon until it is asked to stop, and return the exit code. `read` reads the configuration again, or
    raises BadSettings. Leads an empty ZooKeeper only if `is_new_cluster`."""
    return lifetime.run(lambda last_resort: Daemon(settings, last_resort, read, is_new_cluster=is_new_cluster))


def listeners_of(listening: Listening, users: KnownUsers, troubles: Troubles) -> list[ListenerSettings]:
    """Each listener's address and how clients authenticate there."""
    access_of = listener_access(listening, users, troubles)
    return [ListenerSettings(at.listener, at.host, at.port, access=access_of[at.listener]) for at in listening.bound]


def _limits(wanted: Limits) -> Limits:
    """Limits on clients, with no more connections than the limit of open files allows."""
    most_connections = connections_within(wanted.most_connections, is_relaying=True)
    if most_connections < wanted.most_connections:
        _log.warning(
            "the limit of open files leaves room for fewer connections than max.connections",
            limit=most_connections,
            wanted=wanted.most_connections,
            hint="raise the limit of open files (LimitNOFILE), or lower max.connections",
        )
    return replace(wanted, most_connections=most_connections, most_for_address=by_address(wanted.most_for_address))


def standby_of(settings: Settings, bridge: Callable[[], Bridge], troubles: Troubles | None = None) -> Standby | None:
    """What keeps the cluster in memory while this replica does not lead; None where it is not to."""
    machine = settings.term.machine
    if not settings.term.is_standby_warm or settings.candidacy.take_over is TakeOver.NEVER:
        return None
    is_recursive = settings.term.has_recursive_watch
    what = watched_in_term(machine)
    return Standby(bridge, what, machine.znode_size_limit // 2, troubles, is_recursive=is_recursive)


class Daemon:
    """One replica's process. Of several replicas, one leads."""

    def __init__(
        self,
        settings: Settings,
        last_resort: LastResort | None = None,
        read: Callable[[], Settings] | None = None,
        *,
        is_new_cluster: bool = False,
    ) -> None:
        """Build everything that lives as long as the process. Without `read` the settings are never read again."""
        self._is_new_cluster = is_new_cluster
        self._last_resort = last_resort
        self._service_manager = ServiceManager(os.environ)
        self._is_stopping = False
        self._own_id = settings.claim.own_id
        self._candidacy = Candidacy(settings.candidacy)
        self._since = time.time()
        self._pause = PauseSeen()
        self._troubles = Troubles()
        self._in_force = SettingsInForce(settings, read or (lambda: settings), self._adopt, self._troubles)
        self._orders: asyncio.Queue[Claim | TermOrder | Exit] = asyncio.Queue()
        self._alarm = Alarm()
        self._assemble(settings)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop to run it on: how long that is busy is among its metrics."""
        return self._monitoring.busy.new_loop()

    def _assemble(self, settings: Settings) -> None:
        """Build the parts that do I/O."""
        http, troubles = settings.http, self._troubles
        access = http_access(http, troubles)
        log_openness(http, access)
        self._monitoring = Monitoring(api_name, troubles, [at.listener for at in settings.listening.bound])
        self._monitoring.status = self.status
        self._exporter = Exporter(
            self._monitoring.recorder,
            self,
            http.address,
            moves=self._monitoring,
            readers=Readers(http.allowed_hosts, access),
        )
        self._monitoring.beats = self._exporter.beat
        judging = settings.term.machine.authorizer
        self._cluster = ClusterFollower(
            lambda: self._claimant.bridge, self._rights_unreadable, troubles, judges=judging is not None
        )
        self._rights = RightsInForce(self._cluster, judging) if judging is not None else None
        self._quotas = QuotasFollower(lambda: self._claimant.bridge, self._rights_unreadable, troubles)
        self._users = (
            CredentialsFollower(lambda: self._claimant.bridge, self._rights_unreadable, troubles)
            if wants_users(settings.listening)
            else None
        )
        self._server = Server(
            self._own_id,
            listeners_of(settings.listening, self._users or NoUsers(), troubles),
            brokers=Brokers(
                self._own_id,
                self._live_brokers,
                dialer_of(settings.listening, READ_AHEAD_BYTES, troubles),
                settings.claim.request_timeout_s,
                self._rights.is_allowed if self._rights is not None else anybody,
                self._leader,
            ),
            limits=_limits(settings.limits),
            inter_broker_listener=settings.listening.inter_broker,
            observer=self._monitoring.server,
        )
        self._server.report_to(troubles)
        self._server.ask_for_quotas(lambda: self._quotas.limits_users)
        rights = self._rights
        self._access_log = AccessLog(
            lambda after_s, ring: asyncio.get_running_loop().call_later(after_s, ring),
            rights.reason if rights is not None else no_reason,
        )
        if rights is not None:
            self._server.judge(rights.is_allowed_for_any, self._access_log.judged)
        self._monitoring.ask_through(self._server.ask)
        if Check.AUTHORIZER not in settings.preflight.tolerated:
            self._server.withhold(lambda: self._claimant.withheld)
            self._monitoring.refuses_clients = self._refuses_clients
        dialer = dialer_of(settings.listening, troubles=troubles)
        self._preflight = preflight_of(settings, self._server, dialer, is_new_cluster=self._is_new_cluster)
        self._claimant = Claimant(
            settings.claim,
            self._preflight,
            self._happened,
            troubles=troubles,
            never_claims=settings.candidacy.take_over is TakeOver.NEVER,
        )
        self._server.show_life(Contact(lambda: self._claimant.bridge).is_lost)
        self._server.show(
            lambda: own_configs(
                self._in_force.settings.values.overridden(self._claimant.inherited.values), str(self._claimant.protocol)
            )
        )
        pulse = LeaderPulse(self._cluster.registered, dialer, settings.listening.inter_broker)
        self._leader_watch = self._watch_of(settings, pulse)
        self._standby = standby_of(settings, lambda: self._claimant.bridge, troubles)
        if self._standby is not None:
            self._monitoring.standby = self._standby.figures
        followed = Followed(self._cluster, self._quotas, self._standby)
        self._terms = Terms(settings.term, self._claimant, self._monitoring, self._happened, followed, dialer)
        self._terms.decided = self._access_log.tell
        self._announcing = ReplicaZnode(
            self._own_id,
            lambda: self._claimant.bridge if self._claimant.may_write else None,
            self.status,
            http.address,
            troubles,
        )

    def _watch_of(self, settings: Settings, pulse: Pulse) -> LeaderWatch:
        """What challenges the leader while this process stands by."""
        return LeaderWatch(
            settings.claim,
            lambda: self._claimant.bridge,
            pulse,
            self,
            lambda outcome: self._monitoring.measured(Measured("challenges", 1, (outcome,))),
            self._troubles,
        )

    @property
    def suspect(self) -> Suspect | None:
        """The leader that this replica may challenge."""
        return self._candidacy.suspect

    def replace(self, unanswered: Unanswered) -> bool:
        """Claim instead of a leader that has not answered a challenge; False if this replica may not."""
        self._happened(unanswered)
        return self._candidacy.phase is Phase.CONTENDING

    async def live(self) -> int:
        """Stand by, lead, and stand by again until asked to stop; return the exit code."""
        lifetime.answer_signals(self._stop_requested, self.status, self._in_force.read_again)
        try:
            if not await self._listen():
                return FAILED
            self._service_manager.ready(asyncio.get_running_loop())
            return await self._live()
        finally:
            await self._close()

    def status(self) -> Status:
        """The state of this process, for `/readyz` and `status`."""
        candidacy = self._candidacy
        phase, seen = candidacy.phase, candidacy.holder
        status = Status(
            phase=phase,
            broker=self._own_id,
            controller=self._leader_id(),
            controller_epoch=seen.epoch if seen is not None else None,
            is_leader=phase is Phase.ACTIVE,
            is_ready=candidacy.is_ready and not self._server.cannot_accept,
            since=self._since,
            reason=candidacy.reason,
            set_aside=self._monitoring.set_aside,
            held_up=self._monitoring.held_up,
            warnings=self._claimant.warnings,
            failing=self._troubles.now(),
            is_released=seen is not None and seen.is_released,
            migration=self._claimant.migration.value,
            settings_pending=self._in_force.pending,
        )
        return self._pause.shown_in(status, is_obeyed=self._terms.is_paused() if status.is_leader else None)

    async def _adopt(self, settings: Settings) -> None:
        """Let settings count that differ from those in force only in what needs no restart."""
        limits = await asyncio.to_thread(_limits, settings.limits)  # it looks names of hosts up
        logs.set_level(settings.logs.level)
        logs.set_level_of(authorizer_log.LOGGER, settings.logs.authorizer_level)
        self._server.adjust(limits)
        self._server.relay_within(settings.claim.request_timeout_s)
        self._preflight.expect(wanted_of(settings, is_new_cluster=self._is_new_cluster))
        self._claimant.adjust(settings.claim)
        self._terms.adjust(settings.term)
        self._happened(TakeOverChosen(settings.candidacy.take_over))

    def _end_within_s(self) -> float:
        """How long an end takes at most."""
        settings = self._in_force.settings
        return _CLOSE_WITHIN_S + settings.term.drain_timeout_s + settings.claim.request_timeout_s

    def _refuses_clients(self) -> bool:
        withheld = self._claimant.withheld
        return withheld is not None and withheld.is_known

    async def _live_brokers(self) -> Sequence[LiveBroker]:
        live = self._terms.live_brokers()
        return await self._cluster.live_brokers() if live is None else live

    async def _leader(self) -> LiveBroker | None:
        """The holder of `/controller` and its addresses, if known."""
        leader = self._leader_id()
        return None if leader is None else await self._cluster.registered(leader)

    def _leader_id(self) -> BrokerId | None:
        claim = self._candidacy.holder.holder if self._candidacy.holder is not None else None
        return claim.broker if isinstance(claim, ControllerClaim) else None

    def _is_led_by_another(self) -> bool:
        seen = self._candidacy.holder
        is_led = seen is not None and isinstance(seen.holder, ControllerClaim) and not seen.is_mine
        return is_led and self._candidacy.phase is Phase.STANDBY

    def _rights_unreadable(self, notice: Notice) -> None:
        self._monitoring.noticed(notice)
        _log.warning(notice.text, kind=notice.kind)

    def _stop_requested(self, reason: str) -> None:
        """The first signal ends the process in good order, the second as fast as possible."""
        self._service_manager.stopping()
        if self._is_stopping:
            self._terms.cut_short()
            if self._last_resort is not None:
                self._last_resort.end_within(_CLOSE_WITHIN_S, FAILED)
        self._is_stopping = True
        self._happened(StopAsked(reason))

    async def _listen(self) -> bool:
        try:
            await self._exporter.start()
            self._monitoring.start()
            await self._server.start()
        except OSError as error:
            hint = "change listeners or http.port, or stop the process that uses the port"
            _log.error("cannot listen", reason=str(error), hint=hint)
            return False
        return True

    async def _live(self) -> int:
        async with asyncio.TaskGroup() as tasks:
            parts = [self._claimant.reach(), self._announcing.keep(), self._cluster.follow(), self._quotas.follow()]
            parts.append(self._in_force.keep())
            parts.append(self._leader_watch.keep())
            if self._users is not None:
                parts.append(self._users.follow())
            if self._standby is not None:
                parts.append(self._standby.follow())
            beside = [tasks.create_task(part) for part in parts]
            code = await self._carry_out_orders(tasks)
            for task in beside:
                task.cancel()
        return code

    def _happened(self, event: Event) -> None:
        """Pass an event to the candidacy. Orders that take time are queued."""
        before, replaced = self._candidacy.phase, self._candidacy.challenges.times_replaced
        orders = self._candidacy.step((event,), asyncio.get_running_loop().time())
        self._pause.note(self._candidacy.holder)
        if self._standby is not None:
            self._standby.note(is_led_by_another=self._is_led_by_another())
        if self._candidacy.phase is not before:
            self._since = time.time()
            self._service_manager.status(f"{self._candidacy.phase}: {self._candidacy.reason}")
        self._note_challenges(event, was_replaced=self._candidacy.challenges.times_replaced > replaced)
        for order in orders:
            match order:
                case Say(severity, text, details):
                    _log.log(severity, text, **details)
                case WakeAt(at):
                    self._alarm.ring(at, partial(self._happened, Woken()))
                case Exit(code):
                    if self._last_resort is not None:
                        self._last_resort.end_within(self._end_within_s(), code)
                    self._orders.put_nowait(order)
                case Claim() | BeginTerm() | Serve() | Drain() | Release() | Renew() | Abandon():
                    self._orders.put_nowait(order)
                case _:
                    assert_never(order)

    def _note_challenges(self, event: Event, *, was_replaced: bool) -> None:
        """Count what challenges meant to this process as a leader, and see whom it may challenge now."""
        if was_replaced:
            self._leader_watch.replaced()
            self._monitoring.measured(Measured("replaced_alive"))
        if isinstance(event, Challenged):
            self._monitoring.measured(Measured("challenges_received"))
        self._leader_watch.look()

    async def _carry_out_orders(self, tasks: asyncio.TaskGroup) -> int:
        """Carry out orders one at a time. A claim runs beside them, so that an exit need not wait for its outcome."""
        claiming: asyncio.Task[None] | None = None
        while True:
            order = await self._orders.get()
            match order:
                case Claim():
                    claiming = tasks.create_task(self._claim(order))
                case Exit(code):
                    if claiming is not None:
                        claiming.cancel()
                    return code
                case BeginTerm() | Serve() | Drain() | Release() | Renew() | Abandon():
                    await self._carry_out(order)
                case _:
                    assert_never(order)

    async def _claim(self, order: Claim) -> None:
        try:
            outcome = await self._claimant.claim(
                replace=order.replace,
                raise_by=order.raise_by,
                replaces_ours=order.replaces_ours,
                surpass=order.surpass,
                unanswered=order.unanswered,
            )
        except Exception as error:
            _log.exception("a claim failed; trying again later")
            outcome = Lost(f"{type(error).__name__}: {error}", needs_mending=True)
        if isinstance(outcome, Claimed):
            self._terms.won(outcome)
        if order.unanswered is not None:
            self._leader_watch.settled(is_won=isinstance(outcome, Claimed))
        self._happened(outcome)

    async def _carry_out(self, order: TermOrder) -> None:
        match order:
            case BeginTerm():
                self._terms.begin(self._server)
            case Serve():
                self._terms.serve(self._server)
            case Drain():
                self._terms.drain()
            case Release(names_successor):
                await self._terms.end(self._server, is_graceful=True, names_successor=names_successor)
            case Renew():
                await self._terms.end(self._server, is_graceful=False, keeps_claim=True)
            case Abandon():
                await self._terms.end(self._server, is_graceful=False)
            case _:
                assert_never(order)

    async def _close(self) -> None:
        self._alarm.cancel()
        await self._server.close()
        await self._claimant.close()
        self._monitoring.stop()
        await self._exporter.stop()
        self._access_log.close()
        self._terms.close()
        self._service_manager.close()
