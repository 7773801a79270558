"""Which settings reach the machine of a term, and in which units; which does this node show to clients?"""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.core.settings import MachineSettings
from controller.preflight.inheriting import Inherited
from controller.settings import Settings
from controller.settings.table import SETTINGS
from controller.settings.term import TermSettings
from controller.settings.values import HIDDEN
from controller.wire.versions import InterBrokerProtocol
from controller.zk.acls import acl_of


def machine_settings(
    settings: TermSettings, protocol: InterBrokerProtocol, cluster_id: str | None, inherited: Inherited | None = None
) -> MachineSettings:
    """What a machine that begins now must know of the configuration, and of how brokers are spoken to.

    `settings` are those in force; what brokers add to them is `inherited`.
    """
    inherited = inherited or Inherited()
    # What is deleted before that is known cannot be got back.
    is_deletion_known = inherited.are_heard or settings.is_deletion_set
    return replace(
        settings.machine,
        cluster_id=cluster_id,
        leaders_write_isr=not protocol.leaders_use_alter_partition,
        has_leader_recovery=protocol.has_leader_recovery_state,
        has_feature_versioning=protocol.has_feature_versioning,
        assigns_topic_ids=protocol.has_topic_ids,
        unclean_election_of_brokers=inherited.unclean_election,
        deletes_topics=settings.machine.deletes_topics if is_deletion_known else None,
        creation_policy="" if settings.ignores_policy else ", ".join(inherited.policies),
        clock_zero_ms=round((time.time() - asyncio.get_running_loop().time()) * 1000),
        acl_bytes=len(acl_of("/", is_protected=settings.protects_znodes)),
    )


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
