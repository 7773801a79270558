"""What does a term go by? Of it, what a native controller has from its broker may change while this process runs."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from controller.core.acl_authorizer import super_users
from controller.core.settings import AuthorizerSettings, MachineSettings, TopicDefaults
from controller.settings.listening import Listening
from controller.settings.values import Values
from controller.settings.zookeeper import ZooKeeperSettings
from zk_layout.ids import BrokerId


class TermSettings(Struct, frozen=True):
    """What one term goes by. It keeps what is in force when it begins.

    Shape:
        `machine` is what decisions depend on, as far as settings tell. What is marked † in docs/settings.md is the
        brokers' where it is not set here, and may be another for the next term: `Settings.overridden`.
        `is_deletion_set` says that the operator has set delete.topic.enable; otherwise it is not known before a broker
        is heard. Topics are created without asking the brokers' policy if it `ignores_policy`. What is created in
        ZooKeeper belongs to its creators if it `protects_znodes`. Without `journal_directory` no journal is kept.

    Units:
        `response_timeout_s` is how long a broker may take to answer, `drain_timeout_s` how long a term that ends waits
        for brokers.
    """

    machine: MachineSettings
    is_deletion_set: bool
    ignores_policy: bool
    protects_znodes: bool
    inter_broker_listener: str
    control_plane_listener: str
    response_timeout_s: float
    drain_timeout_s: float
    journal_directory: Path | None


def term_of(values: Values, listening: Listening, zookeeper: ZooKeeperSettings) -> TermSettings:
    """What the keys that concern a term come to."""
    directory = values.text("journal.dir")
    return TermSettings(
        machine=_machine(values, zookeeper),
        is_deletion_set="delete.topic.enable" in values.given,
        ignores_policy=values.flag("create.topic.policy.ignore"),
        protects_znodes=zookeeper.security.sets_acl,
        inter_broker_listener=listening.inter_broker,
        control_plane_listener=listening.control_plane,
        response_timeout_s=values.seconds("controller.socket.timeout.ms"),
        drain_timeout_s=values.seconds("controller.drain.timeout.ms"),
        journal_directory=Path(directory) if directory else None,
    )


def _machine(values: Values, zookeeper: ZooKeeperSettings) -> MachineSettings:
    rebalance_every_s = float(values.number("leader.imbalance.check.interval.seconds"))
    return MachineSettings(
        own_id=BrokerId(values.number("broker.id")),
        unclean_election=values.flag("unclean.leader.election.enable"),
        deletes_topics=values.flag("delete.topic.enable"),
        deletion_patience_s=values.seconds("reassignment.deletion.patience.ms"),
        znode_size_limit=zookeeper.request_limit_bytes,
        chroot_bytes=_chroot_bytes(zookeeper.connect),
        rebalance_every_s=rebalance_every_s if values.flag("auto.leader.rebalance.enable") else None,
        imbalance_percentage=values.number("leader.imbalance.per.broker.percentage"),
        shutdown_redundancy=values.number("controlled.shutdown.redundancy"),
        defaults=TopicDefaults(values.number("num.partitions"), values.number("default.replication.factor")),
        status_retention_ms=values.number("reassign.partitions.status.min.retention.ms"),
        token_expiry_check_s=values.seconds("delegation.token.expiry.check.interval.ms"),
        keeps_reassignment_znodes=values.flag("controller.reassignments.znodes"),
        authorizer=_authorizer(values),
        quota_window_s=float(
            values.number("controller.quota.window.num") * values.number("controller.quota.window.size.seconds")
        ),
    )


def _authorizer(values: Values) -> AuthorizerSettings | None:
    """How the authorizer decides; None where there is none."""
    if not values.text("authorizer.class.name"):
        return None
    return AuthorizerSettings(
        tuple(sorted(super_users(values.text("super.users")))), values.flag("allow.everyone.if.no.acl.found")
    )


def _chroot_bytes(connect: str) -> int:
    _, slash, chroot = connect.partition("/")
    return len((slash + chroot).encode())
