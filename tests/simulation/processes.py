"""Of which parts does a controller's process consist? The daemon itself, without its sockets.

kazoo's own client reaches ZooKeeper, over lines that delay or lose bytes, at the level of its protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from controller.core.candidacy.phases import TakeOver
from controller.core.messages.events import Event
from controller.following.cluster import ClusterFollower
from controller.following.standby import Standby
from controller.http.status import Status
from controller.process.claimant import Claimant
from controller.process.daemon import Daemon
from controller.process.machine_settings import watched_in_term
from controller.process.replica_znode import ReplicaZnode
from controller.process.term import TermParts
from controller.process.terms import Followed, Terms
from controller.settings import Settings, load
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.versions import parse_protocol
from controller.zk.bridge import Bridge
from controller.zk.contact import Contact
from tests.simulation.kazoo_client import kazoo_client
from tests.simulation.loop import SimulatedLoop
from tests.simulation.stand_ins import (
    ConfigInspector,
    EndsInspector,
    Inspector,
    Links,
    NoExporter,
    NothingWrong,
    Pulse,
    Silent,
    Unled,
)
from zk_layout.ids import BrokerId

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller

PROTOCOL = "3.9"


@lru_cache
def settings_of(
    own_id: BrokerId, take_over: TakeOver, session_timeout_s: float, challenge_timeout_s: float = 0.0
) -> Settings:
    """The settings in one replica's file."""
    given = {
        "zookeeper.connect": "simulated:2181",
        "zookeeper.session.timeout.ms": round(session_timeout_s * 1000),
        "broker.id": own_id,
        "listeners": f"PLAINTEXT://controller-{own_id}:9092",
        "inter.broker.protocol.version": PROTOCOL,
        "controller.takeover": take_over.value,
        "controller.challenge.timeout.ms": round(challenge_timeout_s * 1000),
        "controller.drain.timeout.ms": 1000,
        "http.port": 0,
    }
    texts = [f"{key}={value}" for key, value in given.items()]
    return load(None, texts, {}, {"inter.broker.protocol.version": parse_protocol})


class _Terms(Terms):
    """Terms whose machine, links and random source come from the world."""

    def __init__(self, controller: Controller, settings: Settings, claimant: Claimant, process: Process) -> None:
        observer: Any = controller.observer
        super().__init__(settings.term, claimant, observer, process.happened, process.followed)
        self._controller = controller
        self._bridge = claimant

    def _parts(self, server: Any) -> TermParts:
        controller, observer = self._controller, self._controller.observer
        world, own_id = controller.world, controller.own_id

        def new_links(_: TermParts, emit: Callable[[Event], None], __: Callable[[BaseException], None]) -> Links:
            controller.channels = Links(controller, emit)
            return controller.channels

        of_machine = world.settings_of(own_id)
        return TermParts(
            bridge=self._bridge.bridge,
            facts=self._facts(of_machine, world.sizes.believed_bytes),
            machine_settings=of_machine,
            protocol=parse_protocol(PROTOCOL),
            inter_broker_listener="PLAINTEXT",
            request_timeout_s=30.0,
            request_limit_bytes=world.sizes.believed_bytes,
            drain_timeout_s=1.0,
            answer=server.answer,
            counter=observer,
            link_observer=None,  # type: ignore[arg-type]  # for the links, which are not there
            turn_observers=(observer,),
            new_machine=lambda _, epoch, __, state: controller.new_machine(epoch, state),
            new_links=new_links,
            new_log_dirs=lambda _, emit: Inspector(controller, emit),
            new_broker_configs=lambda _, emit: ConfigInspector(controller, emit),
            new_log_ends=lambda _, emit: EndsInspector(controller, emit),
            random_bytes=bytes,
            wall_clock=partial(world.wall_clocks.now, own_id),
        )


class Process(Daemon):
    """The daemon of `controller.process.daemon`, with stand-ins for its sockets."""

    def __init__(self, controller: Controller, settings: Settings, loop: SimulatedLoop) -> None:
        self._controller = controller
        self._loop = loop
        super().__init__(settings)

    def _assemble(self, settings: Settings) -> None:
        controller = self._controller
        self.claimant = self._claimant = Claimant(
            settings.claim,
            NothingWrong(),
            self._happened,
            new_bridge=self._new_bridge,
            never_claims=settings.candidacy.take_over is TakeOver.NEVER,
        )
        listener: Any = controller.listener
        observer: Any = controller.observer
        self._server, self._monitoring, self._rights, self._users = listener, observer, None, None
        self._leader_watch = self._watch_of(settings, Pulse(controller))
        self.contact = Contact(lambda: self.claimant.bridge)
        following = ClusterFollower if controller.observes else Unled
        self.cluster = self._cluster = following(lambda: self.claimant.bridge)
        self._standby = self._new_standby()
        self.followed = Followed(self.cluster, standby=self._standby)
        self._terms = _Terms(controller, settings, self._claimant, self)
        exporter: Any = NoExporter()
        self._exporter = exporter
        silent: Any = Silent()
        self._quotas = self._access_log = silent
        self._announcing = ReplicaZnode(
            controller.own_id, lambda: self.claimant.bridge if self.claimant.may_write else None, self.status, ("", 0)
        )

    def _new_standby(self) -> Standby | None:
        controller, world = self._controller, self._controller.world
        if controller.observes or not world.plan.warm_standby:
            return None
        what = watched_in_term(world.settings_of(controller.own_id))
        is_recursive, request_bytes = world.plan.recursive_watch, world.sizes.believed_bytes // 2
        return Standby(lambda: self.claimant.bridge, what, request_bytes, is_recursive=is_recursive)

    def _new_bridge(self, settings: ZooKeeperSettings) -> Bridge:
        controller = self._controller
        settings = replace(settings, request_limit_bytes=controller.world.sizes.believed_bytes)
        client = kazoo_client(settings, controller.world.network, self._loop, controller.dial)
        client._connection.abandoned = controller.abandoned
        return Bridge(settings, client)

    def status(self) -> Status:
        """What its znode shows; the time of day is not simulated."""
        candidacy = self._candidacy
        return Status(candidacy.phase, self._own_id, None, None, False, candidacy.is_ready, 0.0, candidacy.reason)

    @property
    def leads_without_session(self) -> bool:
        """Whether it goes on deciding although ZooKeeper has ended its session."""
        return self._terms._term is not None and self.claimant.bridge._client._session_id is None

    def happened(self, event: Any) -> None:
        """Pass an event to the candidacy."""
        self._happened(event)
