"""What was seen of a cluster that may migrate? Values only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from msgspec import Struct

from controller.core.candidacy.migrating import MigrationPhase, migration_phase
from controller.core.state.cluster import ClusterState
from controller.preflight.leaving import ENABLED
from controller.wire.versions import InterBrokerProtocol
from zk_layout.codec import Malformed
from zk_layout.ids import NO_LEADER, BrokerId, ControllerEpoch, PartitionId, TopicName
from zk_layout.znodes.configs import Config
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.migration import Migration


class BrokerAnswer(Struct, frozen=True):
    """What one broker answered.

    Shape:
        `failure` says why it did not answer, or not all. `settings` are its effective ones by key; a key that it does
        not have is absent. `directories` are its log directories, each with an error, empty if there is none; None if
        it does not report them.
    """

    failure: str = ""
    settings: Mapping[str, str] = MappingProxyType({})
    protocol: InterBrokerProtocol | None = None
    directories: Mapping[str, str] | None = None


class Partitions(Struct):
    """What all partitions show, in one pass: the names of some, and how many.

    Shape:
        `hosts` counts replicas by broker, those being added included.
    """

    count: int = 0
    hosts: dict[BrokerId, int] = {}
    moving: list[str] = []
    without_state: list[str] = []
    without_leader: list[str] = []
    under_replicated: list[str] = []

    def saw(self, topic: TopicName, number: PartitionId, state: ClusterState) -> None:
        """Take in one partition."""
        held = state.topics.views[topic].partitions[number]
        at = f"{topic}-{number}"
        self.count += 1
        for replica in held.assignment.replicas:
            self.hosts[replica] = self.hosts.get(replica, 0) + 1
        if held.assignment.is_moving:
            self.moving.append(at)
        if held.state is None:
            self.without_state.append(at)
        elif held.state.leader == NO_LEADER:
            self.without_leader.append(at)
        elif len(held.state.isr) < len(held.assignment.target):
            self.under_replicated.append(at)


class Seen:
    """Everything seen in one look.

    Shape:
        `broker_configs` and `topic_configs` are what was set at run time, by name. `users` have SCRAM credentials.
        `running` are the replicas of this controller that say so, those that stand by included; None if that cannot be
        seen. `quorum` are ids of KRaft controllers, as far as known. `unreadable` are znodes by path, with the reason.
    """

    def __init__(
        self,
        state: ClusterState,
        holder: ControllerClaim | Malformed | None = None,
        epoch: ControllerEpoch | None = None,
        progress: Migration | Malformed | None = None,
    ) -> None:
        """`state` is everything that a controller reads; the others are of `/controller` … `/migration`."""
        self.state, self.holder, self.epoch, self.progress = state, holder, epoch, progress
        self.answers: dict[BrokerId, BrokerAnswer] = {}
        self.broker_configs: dict[str, Config] = {}
        self.topic_configs: dict[TopicName, Config] = {}
        self.users: tuple[str, ...] = ()
        self.tokens: tuple[str, ...] = ()
        self.running: frozenset[BrokerId] | None = frozenset()
        self.quorum: frozenset[int] = frozenset()
        self.unreadable: dict[str, str] = {}

    @property
    def phase(self) -> MigrationPhase:
        """As `/controller` and `/migration` show it."""
        return migration_phase(self.holder, self.progress)

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        """The registered brokers, without replicas of this controller."""
        return tuple(sorted(b for b, seen in self.state.brokers.items() if not seen.registration.is_ours))

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        """The registered replicas of this controller."""
        return tuple(sorted(b for b, seen in self.state.brokers.items() if seen.registration.is_ours))

    @cached_property
    def partitions(self) -> Partitions:
        """All partitions of topics that can be read and are not being deleted."""
        found = Partitions()
        for name, view in sorted(self.state.topics.views.items()):
            for number, held in sorted(view.partitions.items()):
                if held.assignment.replicas and not view.is_queued_for_deletion:
                    found.saw(name, number, self.state)
        return found

    def settings(self, key: str) -> dict[str, list[BrokerId]]:
        """The brokers by their value of a setting; those that do not report it are left out."""
        found: dict[str, list[BrokerId]] = {}
        for broker, answer in sorted(self.answers.items()):
            if key in answer.settings:
                found.setdefault(answer.settings[key], []).append(broker)
        return found

    @property
    def migrating(self) -> frozenset[BrokerId]:
        """The brokers that report that they wait for a KRaft quorum."""
        return frozenset(b for b, answer in self.answers.items() if answer.settings.get(ENABLED, "").lower() == "true")

    @property
    def away(self) -> tuple[BrokerId, ...]:
        """The brokers that host replicas and are not registered; none while KRaft leads, which they may have joined."""
        return () if self.phase.is_led_by_kraft else tuple(sorted(self.partitions.hosts.keys() - set(self.brokers)))

    @property
    def migrates_everywhere(self) -> bool:
        """Whether no broker is away, and every one reports that it waits for a KRaft quorum."""
        return bool(self.brokers) and not self.away and self.migrating >= set(self.brokers)

    @property
    def oldest_protocol(self) -> InterBrokerProtocol | None:
        """The oldest `inter.broker.protocol.version` that a broker reports; None if none does."""
        return min((a.protocol for a in self.answers.values() if a.protocol is not None), default=None)
