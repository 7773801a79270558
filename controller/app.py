"""How do the parts become one process? Builds and connects them, and lives through standby, reign and end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal as os_signal
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from controller import logs
from controller.brokers.dialing import PlaintextDialer
from controller.brokers.understanding import Understanding
from controller.core.topics.create_topics import Defaults
from controller.core.commands import LiveBroker
from controller.core.leadership import Order, Phase, Signal, TakeOver, next_transition
from controller.core.settings import MachineSettings
from controller.monitoring import Monitoring
from controller.reign import Court, Reign
from controller.runtime.journal import Journal
from controller.server.api_names import api_name
from controller.server.connection import Limits
from controller.server.listener import ListenerSettings, Server
from controller.server.relay import Brokers
from controller.settings import JUTE_MARGIN_BYTES, Settings
from controller.wire.versions import parse_protocol
from controller.zk.answers import Disconnected, Refused, SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.connect_settings import ZooKeeperSettings
from controller.zk.session import Claimed, HolderSeen, IdClash, Lost, Reconnected, Session, SessionLost, Suspended
from controller.zk.session import Signal as SessionSignal
from metrics.exporter import Status
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Registration
from zk_layout.znodes.controller import ControllerClaim

_log = structlog.get_logger(__name__)

OK, FAILED = 0, 1
RETRY_CLAIM_S = 0.5
RETRY_CLASH_S = 2.0
SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
LONG_REIGN_S = 60.0
LONGEST_RETRY_S = 5.0
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
        self._settings = settings
        self._protocol = parse_protocol(settings.text("inter.broker.protocol.version"))
        self._own_id = BrokerId(settings.broker_id)
        self._take_over = TakeOver(settings.text("controller.takeover"))
        self._registration = Registration(settings.advertised_endpoints, settings.rack)
        self._request_timeout_s = settings.number("request.timeout.ms") / 1000
        self._signals: asyncio.Queue[tuple[Signal, str]] = asyncio.Queue()
        self._bridge, self._session = self._new_session()
        self.monitoring = Monitoring(settings.text("http.host"), settings.number("http.port"), self, api_name)
        self._server = Server(
            self._own_id,
            [ListenerSettings(listener.name, listener.host, listener.port) for listener in settings.listeners],
            brokers=Brokers(self._own_id, self._live_brokers, PlaintextDialer(), self._request_timeout_s),
            limits=Limits(
                settings.number("socket.request.max.bytes"),
                settings.number("connections.max.idle.ms") / 1000,
                settings.number("max.connections"),
            ),
            observer=self.monitoring.server,
        )
        self.phase = Phase.STANDBY
        self.since = time.time()
        self.reason = "starting"
        self.holder: HolderSeen | None = None
        self.reign: Reign | None = None
        directory = settings.values["journal.dir"]
        self._journal = Journal(Path(str(directory))) if directory else None
        self._cluster_id: str | None = None
        self._reign_began = 0.0
        self._pause_s = 0.0
        self._not_before = 0.0
        self._exit_code = OK
        self._stop_asked = asyncio.Event()
        self._silence: asyncio.TimerHandle | None = None
        self._refusal, self._refusals = "", 0
        self._understanding = Understanding(self._protocol, settings.inter_broker_listener, PlaintextDialer())

    async def live(self) -> int:
        """Stand by, lead, stand by again, until told to stop; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (os_signal.SIGTERM, os_signal.SIGINT):
            loop.add_signal_handler(number, self._stop, f"{number.name} received")
        try:
            await self.monitoring.start()
            await self._server.start()
        except OSError as error:
            _log.error("cannot listen", reason=str(error), hint="change listeners or http.port, or stop who is there")
            await self._close()
            return FAILED
        try:
            if await self._connect():
                await self._follow_signals()
        finally:
            await self._close()
        return self._exit_code

    async def _connect(self) -> bool:
        """Reach ZooKeeper, however long that takes; False if told to stop meanwhile, or if there is no use in it."""
        reaching = asyncio.create_task(self._reach_zookeeper())
        stop_asked = asyncio.create_task(self._stop_asked.wait())
        await asyncio.wait((reaching, stop_asked), return_when=asyncio.FIRST_COMPLETED)
        stop_asked.cancel()
        if reaching.done():
            return reaching.result()
        reaching.cancel()
        await asyncio.wait((reaching,))
        return False

    async def _reach_zookeeper(self) -> bool:
        servers = self._settings.text("zookeeper.connect")
        _log.info("connecting to ZooKeeper", zookeeper=servers)
        while True:
            try:
                await self._bridge.start()
                await self._session.start()
                clash = await self._session.clash(self._registration)
                # Now rather than when a vacancy waits to be filled.
                await self._understanding.complaint(self._session.registrations)
            except Disconnected as error:
                self.reason = str(error)
                _log.warning("no ZooKeeper yet; trying again", reason=str(error))
                self._session.stop()
                self._bridge, self._session = self._new_session()
            except (Refused, SessionEnded) as error:
                _log.error("ZooKeeper refuses", reason=str(error))
                self._exit_code = FAILED
                return False
            else:
                if clash is not None and not clash.is_our_past:
                    self._refuse_own_id(clash.reason)
                    return False
                _log.info("standing by", broker=self._own_id, zookeeper=servers)
                self.reason = "watching /controller"
                return True

    async def _follow_signals(self) -> None:
        while self.phase is not Phase.ENDED:
            signal, reason = await self._signals.get()
            transition = next_transition(self.phase, signal, self._take_over)
            if transition.order is Order.CLAIM and self._must_pause(signal, reason):
                continue
            if transition.phase is not self.phase:
                _log.log(self._severity(signal), f"{self.phase} → {transition.phase}", why=signal.value, detail=reason)
                self.phase, self.since, self.reason = transition.phase, time.time(), reason or signal.value
            await self._carry_out(transition.order)

    def _severity(self, signal: Signal) -> int:
        """How loudly a transition is logged; that a claim is refused again for the same reason is no news."""
        if signal in (Signal.DEPOSED, Signal.SESSION_LOST):
            return logging.WARNING
        return logging.DEBUG if self._refusals > 1 else logging.INFO

    async def _carry_out(self, order: Order) -> None:
        match order:
            case Order.CLAIM:
                await self._claim()
            case Order.LOAD if self.reign is not None:
                self.reign.begin()
                self._look_again()  # the cluster may have been released while the claim was under way
            case Order.SERVE if self.reign is not None:
                self._server.begin_reign(self.reign.emit)
            case Order.DRAIN if self.reign is not None:
                self.reign.resign()
            case Order.RELEASE:
                await self._end_reign(is_graceful=True)
            case Order.ABANDON:
                await self._end_reign(is_graceful=False)
                self._pause_after_a_short_reign()
                self._look_again()
            case _:
                pass

    async def _claim(self) -> None:
        replace = self.holder is not None and self._signal_of(self.holder) is Signal.NATIVE
        try:
            if reason := await self._understanding.complaint(self._session.registrations):
                self._refused(reason, needs_mending=True)
                return
            outcome = await self._session.claim(self._registration, replace=replace)
            if isinstance(outcome, Claimed):
                self._cluster_id = await self._session.cluster_id()
                await self._session.settle_features(has_feature_versioning=self._protocol.has_feature_versioning)
        except (Refused, SessionEnded) as error:
            self._signal(Signal.LOST, str(error))
            self._look_again(RETRY_CLAIM_S)
            return
        match outcome:
            case Claimed():
                self.reign = Reign(self._court(), outcome, self._signal)
                self._reign_began = asyncio.get_running_loop().time()
                self.monitoring.reign_began(outcome.epoch, self.reign.machine)
                logs.reign(outcome.epoch)
                self._refusal, self._refusals = "", 0
                self._signal(Signal.WON, f"controller epoch {outcome.epoch}")
            case IdClash(reason, is_our_past):
                self._clash(reason, is_our_past=is_our_past)
            case Lost(reason, needs_mending):
                self._refused(reason, needs_mending=needs_mending)

    def _refused(self, reason: str, *, needs_mending: bool) -> None:
        if reason != self._refusal:
            self._refusal, self._refusals = reason, 0
            if needs_mending:
                _log.error("no replica can lead", reason=reason)
        self._refusals += 1
        self._signal(Signal.LOST, reason)
        self._look_again(min(RETRY_CLAIM_S * self._refusals, LONGEST_RETRY_S))

    def _clash(self, reason: str, *, is_our_past: bool) -> None:
        self._signal(Signal.LOST, reason)
        if is_our_past:
            self._look_again(RETRY_CLASH_S)
            return
        self._refuse_own_id(reason)
        self._signal(Signal.STOP, "its id is taken")

    def _refuse_own_id(self, reason: str) -> None:
        _log.error("this id is taken", reason=reason, hint="give every replica a broker.id that no broker has")
        self._exit_code = FAILED

    async def _end_reign(self, *, is_graceful: bool) -> None:
        reign, self.reign = self.reign, None
        self._server.refuse_all()
        if reign is None:
            return
        await reign.end(is_graceful=is_graceful)
        self.monitoring.reign_ended()
        gc.unfreeze()
        try:
            if await asyncio.wait_for(self._session.release(reign.fence), self._request_timeout_s):
                _log.info("gave /controller up")
        except TimeoutError:
            _log.warning("ZooKeeper does not answer; what is ours there goes with the session")
        except (SessionEnded, Refused) as error:
            _log.info("nothing to give up", reason=str(error))
        logs.reign(None)

    def _court(self) -> Court:
        settings = self._settings
        rebalance_every_s = settings.number("leader.imbalance.check.interval.seconds")
        return Court(
            bridge=self._bridge,
            machine_settings=MachineSettings(
                own_id=self._own_id,
                cluster_id=self._cluster_id,
                unclean_election=settings.flag("unclean.leader.election.enable"),
                leaders_write_isr=not self._protocol.leaders_use_alter_partition,
                has_leader_recovery=self._protocol.has_leader_recovery_state,
                assigns_topic_ids=self._protocol.has_topic_ids,
                deletes_topics=settings.flag("delete.topic.enable"),
                deletion_patience_s=settings.number("reassignment.deletion.patience.ms") / 1000,
                znode_size_limit=self._request_limit_bytes,
                rebalance_every_s=float(rebalance_every_s) if settings.flag("auto.leader.rebalance.enable") else None,
                shutdown_redundancy=settings.number("controlled.shutdown.redundancy"),
                imbalance_percentage=settings.number("leader.imbalance.per.broker.percentage"),
                defaults=Defaults(settings.number("num.partitions"), settings.number("default.replication.factor")),
                status_retention_ms=settings.number("reassign.partitions.status.min.retention.ms"),
                keeps_reassignment_znodes=settings.flag("controller.reassignments.znodes"),
                clock_zero_ms=round((time.time() - asyncio.get_running_loop().time()) * 1000),
            ),
            protocol=self._protocol,
            inter_broker_listener=settings.inter_broker_listener,
            request_timeout_s=settings.number("controller.socket.timeout.ms") / 1000,
            request_limit_bytes=self._request_limit_bytes,
            drain_timeout_s=settings.number("controller.drain.timeout.ms") / 1000,
            token_expiry_check_s=settings.number("delegation.token.expiry.check.interval.ms") / 1000,
            answer=self._server.answer,
            counter=self.monitoring,
            link_observer=self.monitoring.links,
            turn_observer=self.monitoring.turns,
            journal=self._journal,
        )

    def status(self) -> Status:
        """How this process stands."""
        claim = self.holder.holder if self.holder is not None else None
        is_released = self.phase is Phase.STANDBY and self.holder is not None and self.holder.is_released
        return Status(
            phase=self.phase,
            broker=self._own_id,
            controller=claim.broker if isinstance(claim, ControllerClaim) else None,
            controller_epoch=self.holder.epoch if self.holder is not None else None,
            is_leader=self.phase is Phase.ACTIVE,
            is_ready=self.phase is Phase.ACTIVE or (self.phase is Phase.STANDBY and self.holder is not None),
            since=self.since,
            reason=Signal.RELEASED.value if is_released else self.reason,
        )

    def _new_session(self) -> tuple[Bridge, Session]:
        settings = self._settings
        bridge = Bridge(
            ZooKeeperSettings(
                settings.text("zookeeper.connect"),
                settings.number("zookeeper.session.timeout.ms"),
                settings.number("zookeeper.connection.timeout.ms"),
                settings.number("zookeeper.max.in.flight.requests"),
            )
        )
        return bridge, Session(bridge, self._on_session, self._own_id)

    @property
    def _request_limit_bytes(self) -> int:
        """A request with one write of a large znode also carries its path, the fence and headers."""
        return self._settings.number("jute.maxbuffer") - JUTE_MARGIN_BYTES

    def _live_brokers(self) -> Sequence[LiveBroker]:
        return self.reign.live_brokers() if self.reign is not None else ()

    def _stop(self, reason: str) -> None:
        self._stop_asked.set()
        self._signal(Signal.STOP, reason)

    def _signal(self, signal: Signal, reason: str) -> None:
        self._signals.put_nowait((signal, reason))

    def _on_session(self, seen: SessionSignal) -> None:
        if self._silence is not None and not isinstance(seen, HolderSeen):
            self._silence.cancel()
        match seen:
            case HolderSeen():
                self._note_release(seen)
                self.holder = seen
                self._look_again()
            case SessionLost():
                self.holder = None  # who rules now is seen when there is a session again
                self._signal(Signal.SESSION_LOST, "this process' claim and registration are gone with it")
            case Reconnected():
                _log.info("a new ZooKeeper session has begun")
            case Suspended():
                _log.warning("ZooKeeper connection", state="suspended")
                session_s = self._settings.number("zookeeper.session.timeout.ms") / 1000
                self._silence = asyncio.get_running_loop().call_later(session_s, self._presume_session_lost)
            case _:
                _log.info("ZooKeeper connection", state=type(seen).__name__.lower())

    def _note_release(self, seen: HolderSeen) -> None:
        was_released = self.holder is not None and self.holder.is_released
        if seen.is_released and not was_released:
            _log.warning(
                "released: Kafka's own controllers shall rule", hint="undo: kafka-zk-controller release --undo"
            )
        elif was_released and not seen.is_released:
            _log.info("the release was undone; this replica stands for election again")

    def _presume_session_lost(self) -> None:
        """Only a server can say that a session has expired; where none answers for so long, another may rule."""
        self.holder, self.reason = None, "ZooKeeper has been silent for longer than a session lasts"
        self._signal(Signal.SESSION_LOST, self.reason)

    def _look_again(self, after_s: float = 0.0) -> None:
        """Judge the last known holder of `/controller`, now or after a while."""
        if after_s:
            asyncio.get_running_loop().call_later(after_s, self._look_again)
        elif self.holder is not None:
            signal = self._signal_of(self.holder)
            if signal is not None:
                self._signal(signal, self._named(self.holder))

    def _signal_of(self, seen: HolderSeen) -> Signal | None:
        if seen.is_released and (self.reign is None or seen.is_mine):
            return Signal.RELEASED if self.phase in (Phase.LOADING, Phase.ACTIVE) else None
        if seen.is_mine:
            # Ours without a reign: the session outlived the reign that was given up for lost. It is claimed anew.
            return Signal.VACANT if self.phase is Phase.STANDBY else None
        if self.reign is not None and self.phase is not Phase.CONTENDING and seen.epoch >= self.reign.epoch:
            return Signal.DEPOSED
        if seen.holder is None:
            return Signal.VACANT
        return Signal.OURS if isinstance(seen.holder, ControllerClaim) and seen.holder.is_ours else Signal.NATIVE

    @staticmethod
    def _named(seen: HolderSeen) -> str:
        if isinstance(seen.holder, ControllerClaim):
            return f"broker {seen.holder.broker} holds /controller"
        return "/controller is vacant" if seen.holder is None else "/controller is unreadable"

    def _must_pause(self, signal: Signal, reason: str) -> bool:
        """After a reign that ended badly others go first."""
        wait_s = self._not_before - asyncio.get_running_loop().time()
        if wait_s <= 0:
            return False
        asyncio.get_running_loop().call_later(wait_s, self._signal, signal, reason)
        return True

    def _pause_after_a_short_reign(self) -> None:
        now = asyncio.get_running_loop().time()
        is_short = now - self._reign_began < LONG_REIGN_S
        self._pause_s = min(2 * self._pause_s or SHORTEST_PAUSE_S, LONGEST_PAUSE_S) if is_short else SHORTEST_PAUSE_S
        self._not_before = now + self._pause_s

    async def _close(self) -> None:
        self._session.stop()
        await self._server.close()
        await self._bridge.stop()
        await self.monitoring.stop()
        if self._journal is not None:
            self._journal.close()
