"""Which znodes must exist before a controller works, which does it watch, and which hold secrets?

Source: Kafka's ZkData.PersistentZkPaths and sensitivePath.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from zk_layout.znodes import (
    acls,
    admin,
    brokers,
    configs,
    controller_ids,
    delegation_tokens,
    features,
    move_records,
    notifications,
    pause,
    producer_ids,
    reassignment_status,
    reassignments,
    replica_deletions,
    throttles,
    topics,
    waiting_moves,
)

# Created by Kafka's brokers when they start, and below that what only this controller needs.
PERSISTENT: Final = (
    "/consumers",
    brokers.ROOT,
    topics.ROOT,
    "/brokers/seqid",
    notifications.CONFIG_CHANGES,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    admin.DELETE_TOPICS,
    notifications.ISR_CHANGES,
    notifications.LOG_DIR_EVENTS,
    producer_ids.ProducerIdBlockAddress().path,
    replica_deletions.ROOT,
    waiting_moves.ROOT,
    throttles.TOPICS,
    throttles.BROKERS,
    move_records.ROOT,
    reassignment_status.ROOT,
)

# Only the creator may read znodes below these.
SENSITIVE: Final = (configs.USERS, configs.BROKERS, delegation_tokens.ROOT)


class Watched(NamedTuple):
    """The znodes that a leading controller reads when its term begins, and then watches.

    Shape:
        Children of `parents` are listed at every change, in this order: live brokers, topics, requests,
        notifications. `families` are those whose children's data are watched, too. Only the leading
        controller writes below `listed_once`. `paths` are watched whether or not they exist. What cannot be listed is
        left out, except the `indispensable`: without these nothing counts as read.
    """

    parents: tuple[str, ...]
    families: tuple[str, ...]
    listed_once: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    indispensable: tuple[str, ...] = ()


# Without these lists every broker would look dead, and every topic deleted.
INDISPENSABLE: Final = (brokers.ROOT, topics.ROOT)

_ALWAYS: Final = Watched(
    parents=(
        brokers.ROOT,
        topics.ROOT,
        admin.DELETE_TOPICS,
        replica_deletions.ROOT,
        notifications.ISR_CHANGES,
        notifications.LOG_DIR_EVENTS,
        notifications.CONFIG_CHANGES,
    ),
    # A deletion requested again at once only shows in its data: the list of names never lacked it.
    families=(brokers.ROOT, topics.ROOT, admin.DELETE_TOPICS),
    listed_once=(waiting_moves.ROOT, throttles.TOPICS, throttles.BROKERS, move_records.ROOT, reassignment_status.ROOT),
    paths=tuple(
        address.path
        for address in (
            features.FeatureAddress(),
            controller_ids.ControllerIdsAddress(),
            pause.PauseAddress(),
            configs.DefaultBrokerConfigAddress(),
            admin.LegacyReassignmentAddress(),
            admin.PreferredElectionAddress(),
            producer_ids.ProducerIdBlockAddress(),
            reassignment_status.StatusRootAddress(),
        )
    ),
    indispensable=INDISPENSABLE,
)
_FOLDER: Final = (reassignments.ROOT,)

# The ACLs themselves, not the notifications of their changes: one written by hand, or by a client that died before
# notifying, counts as well. Each of them is watched.
RIGHTS: Final = Watched(parents=acls.FOLDERS, families=acls.FOLDERS)

# The registered brokers, to which clients' requests are relayed.
_REGISTRATIONS: Final = Watched(parents=(brokers.ROOT,), families=(brokers.ROOT,))

# Others may create these again, under the same name, after a deletion.
RECREATED: Final = ("/admin", admin.DELETE_TOPICS, reassignments.ROOT, *acls.FOLDERS)

# Who may log in: users with their SCRAM credentials, and delegation tokens.
CREDENTIALS: Final = Watched(
    parents=(configs.USERS, delegation_tokens.ROOT),
    families=(configs.USERS, delegation_tokens.ROOT),
)

# Notifications that settings have been changed.
CHANGED_CONFIGS: Final = Watched(parents=(notifications.CONFIG_CHANGES,), families=())


def watched(*, follows_reassignments: bool = False, follows_rights: bool = False) -> Watched:
    """The watched znodes; `/admin/reassignments` and ACLs only if enabled.

    >>> "/admin/reassignments" in watched().parents, "/kafka-acl/Topic" in watched().parents
    (False, False)
    >>> watched(follows_reassignments=True).families[-1]
    '/admin/reassignments'
    >>> "/kafka-acl/Topic" in watched(follows_rights=True).families
    True
    """
    what = _ALWAYS
    if follows_reassignments:
        parents, families, paths = (*what.parents, *_FOLDER), (*what.families, *_FOLDER), (*what.paths, *_FOLDER)
        what = what._replace(parents=parents, families=families, paths=paths)
    return _with_rights(what) if follows_rights else what


def followed(*, follows_rights: bool = False) -> Watched:
    """What a process follows whether or not it leads.

    >>> followed().parents
    ('/brokers/ids',)
    """
    return _with_rights(_REGISTRATIONS) if follows_rights else _REGISTRATIONS


def _with_rights(what: Watched) -> Watched:
    return what._replace(parents=(*what.parents, *RIGHTS.parents), families=(*what.families, *RIGHTS.families))
