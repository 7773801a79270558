"""Which processes are there, how are they connected, and which has which role now?"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from msgspec import Struct

from controller.lab.jars import kafka_class_path
from controller.lab.java import QUICK_START
from controller.lab.kafka_broker import KafkaBroker
from controller.lab.ports import free_port, free_ports
from tests.chaos.clock import Clock, clock_library
from tests.chaos.ensemble import ensemble
from tests.chaos.faults import Role, Side
from tests.chaos.members import SESSION_TIMEOUT_MS, Broker, Controller, EnsembleServer, Member, listeners
from tests.chaos.proxy import Link, Mode, Proxies
from zk_layout.znodes.controller import ControllerAddress, decode_claim

BROKER_IDS = (1, 2, 3, 4)
CONTROLLER_IDS = (901, 902)
_SMALL = ("-Xms64m", "-Xmx256m", *QUICK_START)
_ASK_ZOOKEEPER_WITHIN_S = 10.0

# Shorter than Kafka's defaults, so that a fault costs seconds and not half a minute.
_BROKER = {
    "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
    "controller.socket.timeout.ms": 10_000,
    "replica.socket.timeout.ms": 10_000,
    "replica.lag.time.max.ms": 8_000,
    "controlled.shutdown.max.retries": 2,
    "controlled.shutdown.retry.backoff.ms": 1_000,
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": 10,
    "offsets.topic.replication.factor": 3,
}


class StageSettings(Struct, frozen=True):
    """The settings of a stage.

    Shape:
        `contender` is `ours` or `native`; with the latter native controllers lead, without replicas of ours.
    """

    contender: str = "ours"
    kafka: str = "3.9.1"


class Stage:
    """Three ZooKeeper servers, four brokers, two replicas of ours unless native, and links between them."""

    def __init__(self, settings: StageSettings, directory: Path | None = None) -> None:
        """Download missing jars. A given directory is kept.

        Raises:
            JavaUnavailable: no Java was found.
            JarsUnavailable: the jars of this version cannot be had.
        """
        kafka_class_path(settings.kafka)
        self.settings = settings
        self._is_temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="kafka-zk-controller-chaos-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._proxies = Proxies()
        self.ensemble = tuple(EnsembleServer(s, self._clock(s.process.name)) for s in ensemble(self.directory))
        self.brokers = tuple(self._broker(broker_id) for broker_id in BROKER_IDS)
        ids = CONTROLLER_IDS if settings.contender == "ours" else ()
        self.controllers = tuple(self._controller(broker_id) for broker_id in ids)
        self.znodes = KazooClient(
            ",".join(s.server.connect for s in self.ensemble),
            timeout=20,
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
        )

    @property
    def members(self) -> tuple[Member, ...]:
        """All processes, in the order of restarting."""
        return (*self.ensemble, *self.brokers, *self.controllers)

    @property
    def bootstrap_servers(self) -> list[str]:
        """The brokers' addresses for clients."""
        return [broker.address for broker in self.brokers]

    def start(self) -> None:
        """Start all, and wait until all are up.

        Raises:
            ServerFailed: one did not come up.
        """
        for group in (self.ensemble, self.controllers, self.brokers):
            for member in group:
                member.spawn()
            for member in group:
                member.wait_until_up()
        self.znodes.start(timeout=60)

    def stop(self) -> None:
        """End all at once."""
        for member in reversed(self.members):
            member.resume()
            member.process.kill()
        for controller in self.controllers:
            controller.close()
        with suppress(Exception):
            self.znodes.stop()
            self.znodes.close()
        self._proxies.stop()
        if self._is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def members_of(self, role: Role, victim: int) -> tuple[Member, ...]:
        """The processes with a role now; several for whole clusters."""
        match role:
            case Role.ENSEMBLE:
                return self.ensemble
            case Role.BROKERS:
                return self.brokers
            case Role.ZOOKEEPER_LEADER:
                return _one([s for s in self.ensemble if s.server.is_leader] or self.ensemble, victim)
            case Role.ZOOKEEPER_FOLLOWER:
                return _one([s for s in self.ensemble if not s.server.is_leader] or self.ensemble, victim)
        leader = self.leader()
        candidates: Sequence[Controller | Broker] = self.controllers or self.brokers
        match role:
            case Role.LEADER:
                return (leader,) if leader is not None else _one(candidates, victim)
            case Role.STANDBY:
                return _one([c for c in candidates if c is not leader], victim)
        return _one([broker for broker in self.brokers if broker is not leader], victim)

    def leader(self) -> Controller | Broker | None:
        """The holder of `/controller`; None also if ZooKeeper does not answer."""
        claim = self.read(ControllerAddress().path)
        if claim is None:
            return None
        holder = decode_claim(claim).broker
        candidates: tuple[Controller | Broker, ...] = (*self.controllers, *self.brokers)
        return next((member for member in candidates if member.id == holder), None)

    def read(self, path: str) -> bytes | None:
        """The data of a znode; None if it is not there, or ZooKeeper does not answer in time."""
        found = self.ask(lambda: self.znodes.get_async(path).get(timeout=_ASK_ZOOKEEPER_WITHIN_S))
        return None if found is None else found[0]

    def children(self, path: str) -> list[str]:
        """The children of a znode; none if ZooKeeper does not answer in time."""
        return self.ask(lambda: self.znodes.get_children_async(path).get(timeout=_ASK_ZOOKEEPER_WITHIN_S)) or []

    def ask(self, question: Callable[[], Any]) -> Any:
        """ZooKeeper's answer; None if it does not answer, or the znode is missing."""
        try:
            return question()
        except (NoNodeError, KazooException, KazooTimeoutError):
            return None

    def become(self, links: Sequence[Link], mode: Mode) -> None:
        """Change the treatment of connections through these links."""
        for link in links:
            self._proxies.become(link, mode)

    def _broker(self, broker_id: int) -> Broker:
        name = f"broker-{broker_id}"
        zookeeper = self._links_to_zookeeper(name)
        clients_port, brokers_port = free_ports(2)
        link = self._proxies.link(f"to {name}", brokers_port)
        broker = KafkaBroker(
            broker_id,
            self.settings.kafka,
            ",".join(f"127.0.0.1:{way.port}" for way in zookeeper),
            self.directory / name,
            clients_port,
            overrides={**_BROKER, **listeners(clients_port, brokers_port, link)},
            java_options=_SMALL,
        )
        return Broker(broker, {Side.INBOUND: (link,), Side.ZOOKEEPER: zookeeper}, self._clock(name))

    def _controller(self, broker_id: int) -> Controller:
        name = f"controller-{broker_id}"
        zookeeper = self._links_to_zookeeper(name)
        port = free_port()
        link = self._proxies.link(f"to {name}", port)
        return Controller(broker_id, zookeeper, (link, port), self.directory / name, self._clock(name))

    def _links_to_zookeeper(self, name: str) -> tuple[Link, ...]:
        return tuple(self._proxies.link(f"{name} to {s.name}", s.server.port) for s in self.ensemble)

    def _clock(self, name: str) -> Clock | None:
        library = clock_library(self.directory)
        return None if library is None else Clock(library, self.directory / "clocks" / name)


def _one(members: Sequence[Member], victim: int) -> tuple[Member, ...]:
    return (members[victim % len(members)],)
