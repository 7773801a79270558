"""Which settings reach the machine of a term, and in which units; which does this node show to clients?"""

from __future__ import annotations

import asyncio
import time
from importlib import metadata
from typing import Final

from controller.core.acl_authorizer import super_users
from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.core.settings import AuthorizerSettings, MachineSettings, TopicDefaults
from controller.preflight.inheriting import Inherited
from controller.settings import Settings
from controller.settings.table import SETTINGS
from controller.settings.values import HIDDEN
from controller.wire.versions import InterBrokerProtocol
from controller.zk.acls import acl_of
from zk_layout.ids import BrokerId

SOFTWARE: Final = f"kafka-zk-controller {metadata.version('kafka-zk-controller')}"


def machine_settings(
    settings: Settings, protocol: InterBrokerProtocol, cluster_id: str | None, inherited: Inherited | None = None
) -> MachineSettings:
    """What a machine that begins now must know of the configuration, and of how brokers are spoken to.

    `settings` are those in force; what brokers add to them is `inherited`.
    """
    inherited = inherited or Inherited()
    rebalance_every_s = settings.number("leader.imbalance.check.interval.seconds")
    return MachineSettings(
        own_id=BrokerId(settings.broker_id),
        cluster_id=cluster_id,
        unclean_election=settings.flag("unclean.leader.election.enable"),
        leaders_write_isr=not protocol.leaders_use_alter_partition,
        has_leader_recovery=protocol.has_leader_recovery_state,
        has_feature_versioning=protocol.has_feature_versioning,
        assigns_topic_ids=protocol.has_topic_ids,
        unclean_election_of_brokers=inherited.unclean_election,
        deletes_topics=settings.flag("delete.topic.enable") if _is_known(inherited, settings) else None,
        creation_policy="" if settings.flag("create.topic.policy.ignore") else ", ".join(inherited.policies),
        deletion_patience_s=settings.number("reassignment.deletion.patience.ms") / 1000,
        znode_size_limit=settings.number("jute.maxbuffer"),
        chroot_bytes=_chroot_bytes(settings.text("zookeeper.connect")),
        rebalance_every_s=float(rebalance_every_s) if settings.flag("auto.leader.rebalance.enable") else None,
        shutdown_redundancy=settings.number("controlled.shutdown.redundancy"),
        imbalance_percentage=settings.number("leader.imbalance.per.broker.percentage"),
        defaults=TopicDefaults(settings.number("num.partitions"), settings.number("default.replication.factor")),
        status_retention_ms=settings.number("reassign.partitions.status.min.retention.ms"),
        token_expiry_check_s=settings.number("delegation.token.expiry.check.interval.ms") / 1000,
        keeps_reassignment_znodes=settings.flag("controller.reassignments.znodes"),
        authorizer=authorizer_settings(settings),
        quota_window_s=float(
            settings.number("controller.quota.window.num") * settings.number("controller.quota.window.size.seconds")
        ),
        clock_zero_ms=round((time.time() - asyncio.get_running_loop().time()) * 1000),
        acl_bytes=len(acl_of("/", is_protected=settings.zookeeper.sets_acl)),
        software=SOFTWARE,
    )


def authorizer_settings(settings: Settings) -> AuthorizerSettings | None:
    """How the authorizer decides; None where there is none."""
    if not settings.values["authorizer.class.name"]:
        return None
    return AuthorizerSettings(
        tuple(sorted(super_users(str(settings.values["super.users"] or "")))),
        settings.flag("allow.everyone.if.no.acl.found"),
    )


def _is_known(inherited: Inherited, settings: Settings) -> bool:
    """Whether it is known if topics may be deleted; what is deleted before that cannot be got back."""
    return inherited.are_heard or "delete.topic.enable" in settings.given


def _chroot_bytes(connect: str) -> int:
    _, slash, chroot = connect.partition("/")
    return len((slash + chroot).encode())


def own_configs(settings: Settings, protocol: InterBrokerProtocol) -> dict[str, BrokerConfig]:
    """What this node shows to those who describe it as a broker: its settings under Kafka's names, and the protocol in
    force. Kafka UI takes the version of the cluster, and what it can do, from its controller's."""
    texts = {**settings.shown(), "inter.broker.protocol.version": str(protocol)}
    return {
        one.key: BrokerConfig(
            None if texts[one.key] in ("", HIDDEN) else texts[one.key],
            ConfigSource.DEFAULT if settings.values[one.key] == one.default else ConfigSource.STATIC_BROKER,
            is_sensitive=texts[one.key] == HIDDEN,
        )
        for one in SETTINGS
        if one.is_kafkas
    }
