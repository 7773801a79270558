"""Which znodes must exist before a controller works, which of them does it watch, and which hold secrets?

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
    notifications,
    producer_ids,
    reassignment_status,
    reassignments,
    replica_deletions,
    topics,
)

# What Kafka's brokers create when they start, and below it what only this controller needs.
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
    reassignment_status.ROOT,
)

# What is below these is for its creator alone.
SENSITIVE: Final = (configs.USERS, "/config/brokers", delegation_tokens.ROOT)


class Watched(NamedTuple):
    """What a leading controller reads when its term begins, and then keeps watching.

    Shape:
        Children of `parents` are listed at every change, in this order: who lives, what there is, what is asked,
        what has happened. `families` are those whose children's data are watched, too. Nobody but the leading
        controller writes below `listed_once`. `paths` are watched whether they exist or not. What does not let itself
        be listed is left out, but for the `indispensable`: without these nothing counts as read.
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
    # A deletion asked for again at once shows in its data only: its name was never missed.
    families=(brokers.ROOT, topics.ROOT, admin.DELETE_TOPICS),
    listed_once=(reassignment_status.ROOT,),
    paths=tuple(
        address.path
        for address in (
            features.FeatureAddress(),
            controller_ids.ControllerIdsAddress(),
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

# Rights themselves, not the notifications of their changes: what was written by hand, or by somebody who died before
# telling it, counts as well. Each of them is watched.
RIGHTS: Final = Watched(parents=acls.FOLDERS, families=acls.FOLDERS)

# Who is there, for clients that are passed on.
_REGISTRATIONS: Final = Watched(parents=(brokers.ROOT,), families=(brokers.ROOT,))

# Where others create again, under the same name, what they or we have deleted.
RECREATED: Final = ("/admin", admin.DELETE_TOPICS, reassignments.ROOT, *acls.FOLDERS)

# Who may log in: users with their SCRAM credentials, and delegation tokens.
CREDENTIALS: Final = Watched(
    parents=(configs.USERS, delegation_tokens.ROOT),
    families=(configs.USERS, delegation_tokens.ROOT),
)

# Notifications that settings have been changed.
CHANGED_CONFIGS: Final = Watched(parents=(notifications.CONFIG_CHANGES,), families=())


def watched(*, follows_reassignments: bool = False, follows_rights: bool = False) -> Watched:
    """What is watched; `/admin/reassignments`, and who may do what, only where somebody asks for it.

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
