"""What settings does a term's machine get? Those of the operator, the brokers' and what only the process knows."""

from __future__ import annotations

import asyncio
import time
from importlib import metadata
from typing import Final

from msgspec.structs import replace

from controller.core.settings import MachineSettings
from controller.preflight.inheriting import Inherited
from controller.settings.term import TermSettings
from controller.wire.versions import InterBrokerProtocol
from controller.zk.acls import acl_of
from zk_layout.watched import Watched, watched

SOFTWARE: Final = f"kafka-zk-controller {metadata.version('kafka-zk-controller')}"


def machine_settings(
    settings: TermSettings, protocol: InterBrokerProtocol, cluster_id: str | None, inherited: Inherited | None = None
) -> MachineSettings:
    """The settings of a machine that starts now, and how it must address brokers.

    `inherited` are the brokers' settings; they apply where `settings` have none.
    """
    inherited = inherited or Inherited()
    cluster = settings.cluster.overridden(inherited.values)
    # A topic deleted before the brokers' setting is known cannot be restored.
    is_deletion_known = inherited.are_known or settings.is_deletion_set
    return replace(
        settings.machine,
        cluster_id=cluster_id,
        unclean_election=cluster.unclean_election,
        rebalance_every_s=cluster.rebalance_every_s,
        imbalance_percentage=cluster.imbalance_percentage,
        defaults=cluster.topic_defaults,
        min_insync_replicas=cluster.min_insync_replicas,
        token_expiry_check_s=cluster.token_expiry_check_ms / 1000,
        quota_window_s=cluster.quota_window_s,
        leaders_write_isr=not protocol.leaders_use_alter_partition,
        has_leader_recovery=protocol.has_leader_recovery_state,
        has_feature_versioning=protocol.has_feature_versioning,
        assigns_topic_ids=protocol.has_topic_ids,
        unclean_election_of_brokers=inherited.unclean_election,
        deletes_topics=cluster.deletes_topics if is_deletion_known else None,
        creation_policy="" if settings.ignores_policy else ", ".join(inherited.policies),
        clock_zero_ms=round((time.time() - asyncio.get_running_loop().time()) * 1000),
        acl_bytes=len(acl_of("/", is_protected=settings.protects_znodes)),
        software=SOFTWARE,
    )


def watched_in_term(settings: MachineSettings) -> Watched:
    """What a term with these settings reads and watches."""
    return watched(
        follows_reassignments=settings.keeps_reassignment_znodes, follows_rights=settings.authorizer is not None
    )
