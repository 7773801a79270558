"""Which settings does a term use?"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from controller.core.acl_authorizer import super_users
from controller.core.settings import AuthorizerSettings, MachineSettings
from controller.settings.cluster import ClusterSettings, cluster_of
from controller.settings.listening import Listening
from controller.settings.moves_table import BEGIN
from controller.settings.values import Values
from controller.settings.windows import windows_in
from controller.settings.zookeeper import ZooKeeperSettings
from zk_layout.ids import BrokerId


class TermSettings(Struct, frozen=True):
    """The settings of a term.

    Shape:
        `machine` has the settings that decisions depend on. Those that brokers have as well are in `cluster`, as they
        are here; a term takes the brokers' values when it begins, and keeps them.
        `is_deletion_set` says that the operator has set delete.topic.enable; otherwise it is not known until a broker
        has answered. Topics are created without the brokers' policy if it `ignores_policy`. What is created in
        ZooKeeper belongs to its creators if it `protects_znodes`. Without `journal_directory` no journal is kept. With
        `is_standby_warm` topics are followed before a term begins; with `has_recursive_watch` one watch follows them
        where ZooKeeper knows such watches.

    Units:
        `response_timeout_s` is how long a broker may take to answer, `drain_timeout_s` how long a term that ends waits
        for brokers.
    """

    machine: MachineSettings
    cluster: ClusterSettings
    is_deletion_set: bool
    ignores_policy: bool
    protects_znodes: bool
    inter_broker_listener: str
    control_plane_listener: str
    response_timeout_s: float
    drain_timeout_s: float
    journal_directory: Path | None
    is_standby_warm: bool = False
    has_recursive_watch: bool = False


def term_of(values: Values, listening: Listening, zookeeper: ZooKeeperSettings) -> TermSettings:
    """Build it from the keys that concern a term."""
    directory = values.text("journal.dir")
    return TermSettings(
        machine=_machine(values, zookeeper),
        cluster=cluster_of(values),
        is_deletion_set="delete.topic.enable" in values.given,
        ignores_policy=values.flag("create.topic.policy.ignore"),
        protects_znodes=zookeeper.security.sets_acl,
        inter_broker_listener=listening.inter_broker,
        control_plane_listener=listening.control_plane,
        response_timeout_s=values.seconds("controller.socket.timeout.ms"),
        drain_timeout_s=values.seconds("controller.drain.timeout.ms"),
        journal_directory=Path(directory) if directory else None,
        is_standby_warm=values.flag("controller.standby.warm"),
        has_recursive_watch=values.flag("controller.standby.recursive.watch"),
    )


def _machine(values: Values, zookeeper: ZooKeeperSettings) -> MachineSettings:
    return MachineSettings(
        own_id=BrokerId(values.number("broker.id")),
        deletion_patience_s=values.seconds("reassignment.deletion.patience.ms"),
        znode_size_limit=zookeeper.request_limit_bytes,
        chroot_bytes=_chroot_bytes(zookeeper.connect),
        shutdown_redundancy=values.number("controlled.shutdown.redundancy"),
        status_retention_ms=values.number("reassign.partitions.status.min.retention.ms"),
        keeps_reassignment_znodes=values.flag("controller.reassignments.znodes"),
        authorizer=_authorizer(values),
        moves_at_once=values.number("reassignment.moves.at.once") or None,
        moves_into_broker=values.number("reassignment.moves.into.broker") or None,
        moves_out_of_broker=values.number("reassignment.moves.out.of.broker") or None,
        moves_into_rack=values.number("reassignment.moves.into.rack") or None,
        changes_a_second=values.number("reassignment.changes.per.second") or None,
        moves_give_up_s=values.seconds("reassignment.moves.give.up.ms") or None,
        moves_wait_for_znodes=values.flag("reassignment.moves.wait.for.znodes"),
        moves_throttle=values.number("reassignment.moves.throttle") or None,
        moves_throttle_min=values.number("reassignment.moves.throttle.min") or None,
        moves_order=tuple(filter(None, values.text("reassignment.moves.order").split(","))),
        moves_windows=windows_in(values.text("reassignment.moves.windows")),
        moves_need_min_isr=values.flag("reassignment.moves.wait.for.min.isr"),
        moves_need_brokers=values.flag("reassignment.moves.wait.for.brokers"),
        moves_need_brokers_after_s=values.seconds("reassignment.moves.wait.for.brokers.after.ms"),
        moves_need_receivers_s=values.seconds("reassignment.moves.wait.for.receivers.ms"),
        moves_need_disks_percent=values.number("reassignment.moves.wait.for.disks.percent"),
        moves_ignore_unknown_disks=values.text("reassignment.moves.wait.for.disks.unknown") == BEGIN,
        keeps_move_records=values.flag("reassignment.records.enable"),
        accounts_moves=bool(values.text("log.moves.file")),
    )


def _authorizer(values: Values) -> AuthorizerSettings | None:
    """How the authorizer decides; None without one."""
    if not values.text("authorizer.class.name"):
        return None
    return AuthorizerSettings(
        tuple(sorted(super_users(values.text("super.users")))), values.flag("allow.everyone.if.no.acl.found")
    )


def _chroot_bytes(connect: str) -> int:
    _, slash, chroot = connect.partition("/")
    return len((slash + chroot).encode())
