"""A cluster as ZooKeeper shows it, for the tool's deprecated option `--zookeeper`.

Its moves are those that `/admin/reassign_partitions` still names; moves started otherwise are not seen.

Source: Kafka 2.8's ReassignPartitionsCommand, the methods with a `zkClient`; AdminZkClient.changeEntityConfig.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from time import monotonic
from typing import TypeVar

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import ZnodeStat

from controller.reassign.cluster import (
    NOTHING_ADDED,
    Added,
    Answered,
    Configured,
    Directories,
    Edge,
    Kind,
    Listing,
    Mode,
    Move,
    Node,
    PartitionState,
    Settings,
)
from controller.reassign.executing import EXISTING
from controller.reassign.plans import Replica
from controller.reassign.refusals import Declined, Refused, Unreachable, Unusable
from controller.settings.kinds import SERVERS
from controller.settings.security import ZooKeeperSecurity
from controller.zk.client import client_of
from zk_layout.codec import Undecodable
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition, Zxid
from zk_layout.znodes import admin, brokers, configs, notifications, topics
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.configs import Config
from zk_layout.znodes.notifications import ConfigChange
from zk_layout.znodes.topics import TopicAddress

DEPRECATED = "Warning: --zookeeper is deprecated, and will be removed in a future version of Kafka."
IGNORED = (
    "Warning: ignoring deprecated --zookeeper option because --bootstrap-server was specified.  The --zookeeper option "
    "will be removed in a future version of Kafka."
)
_CHANGES = f"{notifications.CONFIG_CHANGES}/config_change_"
_FOLDERS = {Kind.TOPIC: "topics", Kind.BROKER: "brokers"}
_TRIES = 5
_LOOK_EVERY_S = 0.05

T = TypeVar("T")


class ZooKeeperCluster:
    """Everything by reading and writing znodes, as Kafka's tool did until 2.8."""

    has_log_dirs = False

    def __init__(self, connect: str, timeout_ms: int, security: ZooKeeperSecurity | None = None) -> None:
        """Connects.

        Raises:
            Unreachable: no server answers, or none accepts us.
        """
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what matters is reported once, as an error
        self._named = connect
        reasons: list[str] = []
        self._client = client_of(
            str(SERVERS.read(connect)), security or ZooKeeperSecurity(), reasons.append, timeout=20
        )
        until, connected = monotonic() + timeout_ms / 1000, self._client.start_async()
        while not connected.wait(_LOOK_EVERY_S):
            if len(reasons) >= len(self._client.hosts):
                self.close()
                raise Unreachable(f"ZooKeeper at {connect}: {reasons[-1]}")
            if monotonic() > until:
                self.close()
                raise Unreachable(f"no ZooKeeper answers at {connect} within {timeout_ms / 1000:g} s")

    def nodes(self) -> dict[BrokerId, Node]:
        """The registered brokers."""
        first = {broker: (found, found.endpoints[0]) for broker, found in self._registrations().items()}
        return {b: Node(endpoint.host, endpoint.port, r.rack, r.is_ours) for b, (r, endpoint) in first.items()}

    def bootstrap_servers(self, security_protocol: str) -> str:
        """The addresses of the brokers' listeners with this protocol.

        Raises:
            Unreachable: there are none.
        """
        found = [registration for registration in self._registrations().values() if not registration.is_ours]
        endpoints = [e for registration in found for e in registration.endpoints]
        fitting = [e.address for e in endpoints if e.security_protocol == security_protocol]
        if not endpoints:
            raise Unreachable(f"no broker is registered at ZooKeeper {self._named}")
        if not fitting:
            others = ", ".join(sorted({e.security_protocol for e in endpoints}))
            text = f"no broker has a listener with security.protocol {security_protocol}, only with {others}"
            raise Unreachable(f"{text}; configure the connection in a file for --command-config")
        return ",".join(fitting)

    def _registrations(self) -> dict[BrokerId, Registration]:
        found = {}
        try:
            names = self._ask(lambda: self._client.get_children(brokers.ROOT))
        except NoNodeError:
            return {}
        for name in names:
            data = self._read(BrokerAddress(BrokerId(int(name))).path)
            if data is not None:
                found[BrokerId(int(name))] = _decoded(brokers.decode, data)
        return found

    def topics(self, names: Collection[TopicName] | None) -> dict[TopicName, dict[PartitionId, PartitionState]]:
        """Their assignments, without leaders and ISRs."""
        found = {}
        if names is None:
            names = list(map(TopicName, self._ask(lambda: self._client.get_children(topics.ROOT))))
        for name in names:
            data = self._read(TopicAddress(name).path)
            if data is not None:
                partitions = _decoded(topics.decode, data).partitions
                found[name] = {p: PartitionState(partitions[p].replicas) for p in sorted(partitions)}
        return found

    def topic_ids(self, names: Collection[TopicName]) -> dict[TopicName, str]:  # noqa: ARG002 - plans are made over brokers
        """Not asked."""
        return {}

    def listing(self, partitions: Collection[TopicPartition] | None = None, request_id: int | None = None) -> Listing:  # noqa: ARG002 - not known to ZooKeeper
        """The moves the legacy znode still names."""
        data = self._read(LegacyReassignmentAddress().path)
        moves = () if data is None else _decoded(admin.decode_reassignment, data).moves
        wanted = None if partitions is None else set(partitions)
        return Listing(
            {m.topic_partition: Move(m.replicas) for m in moves if wanted is None or m.topic_partition in wanted}
        )

    def alter(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        mode: Mode | None = None,  # noqa: ARG002 - not known to ZooKeeper
        added: Added = NOTHING_ADDED,  # noqa: ARG002 - neither is this
    ) -> Answered:
        """Write the moves where the controller looks for them."""
        moves = tuple(LegacyMove(at.topic, at.partition, to) for at, to in targets.items() if to is not None)
        if len(moves) < len(targets):
            raise Unusable('You must specify --bootstrap-server when using "[cancel]"')
        data = admin.encode_reassignment(LegacyReassignment(moves))
        try:
            self._ask(lambda: self._client.create(LegacyReassignmentAddress().path, data, makepath=True))
        except NodeExistsError:
            raise Declined(EXISTING) from None
        return Answered()

    def configure(self, changes: Mapping[Configured, Settings]) -> dict[Configured, str]:
        """Change the settings' znodes, and notify the brokers of each."""
        failed = {}
        for of, settings in changes.items():
            entity = f"{_FOLDERS[of.kind]}/{of.name}"
            try:
                if self._change(f"/config/{entity}", settings):
                    note = notifications.encode_config_change(ConfigChange(entity))
                    self._ask(partial(self._client.create, _CHANGES, note, sequence=True))
            except (BadVersionError, Refused) as error:
                failed[of] = str(error) or "another process keeps changing it"
        return failed

    def throttles(self, brokers: Collection[BrokerId]) -> dict[BrokerId, int]:  # noqa: ARG002 - asked where sizes are known
        """Not asked."""
        return {}

    def directories(self, replicas: Collection[Replica]) -> dict[Replica, Directories]:  # noqa: ARG002 - not known to ZooKeeper
        """Unknown here."""
        return {}

    def offsets(self, replicas: Collection[Replica], edge: Edge) -> dict[Replica, int]:  # noqa: ARG002 - not known to ZooKeeper
        """Unknown here."""
        return {}

    def move_directories(self, targets: Mapping[Replica, str]) -> dict[Replica, str | None]:  # noqa: ARG002 - not known to ZooKeeper
        """Impossible here; plans with directories are refused earlier."""
        return {}

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def _change(self, path: str, settings: Settings) -> bool:
        """Change settings, again whenever another client was faster; True if there was anything to change."""
        for last in [False] * (_TRIES - 1) + [True]:
            found = self._get(path)
            old = {} if found is None else _decoded(configs.decode, found[0]).config
            new = {key: value for key, value in (old | dict(settings)).items() if value is not None}
            if new == old:
                return False
            data = configs.encode(Config(new))
            try:
                if found is None:
                    self._ask(partial(self._client.create, path, data, makepath=True))
                else:
                    self._ask(partial(self._client.set, path, data, found[1].version))
            except (BadVersionError, NodeExistsError, NoNodeError):
                if last:
                    raise BadVersionError from None
                continue
            return True
        return False

    def read(self, path: str) -> tuple[bytes, Zxid] | None:
        """A znode's data, and the zxid of its creation; None if there is none."""
        found = self._get(path)
        return None if found is None else (found[0], Zxid(found[1].czxid))

    def children(self, path: str) -> list[str]:
        """The names of a znode's children; none if there is no such znode."""
        try:
            return list(self._ask(lambda: self._client.get_children(path)))
        except NoNodeError:
            return []

    def _get(self, path: str) -> tuple[bytes, ZnodeStat] | None:
        try:
            found: tuple[bytes, ZnodeStat] = self._ask(lambda: self._client.get(path))
        except NoNodeError:
            return None
        return found

    def _read(self, path: str) -> bytes | None:
        found = self._get(path)
        return None if found is None else found[0]

    def _ask(self, once: Callable[[], T]) -> T:
        try:
            return self._client.retry(once)  # type: ignore[no-any-return]  # untyped library
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except (KazooException, KazooTimeoutError) as error:
            raise Unreachable(f"ZooKeeper: {type(error).__name__} {error}".rstrip()) from None


def _decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(data)
    except Undecodable as error:
        raise Refused(f"a znode cannot be read: {error}") from None
