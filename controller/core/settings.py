"""Which settings do decisions depend on?"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from controller.core.windows import Window
from zk_layout.ids import BrokerId

DAY_MS = 24 * 60 * 60 * 1000
WRITES_A_TRANSACTION = 300
LEAST_LEFT = 0.3


class TopicDefaults(Struct, frozen=True):
    """Defaults for topics created without a size: `num.partitions`, `default.replication.factor`."""

    partition_count: int = 1
    replication_factor: int = 1


class TurnBudget(Struct, frozen=True):
    """How much work one turn may do, so that it never blocks the process for long; the rest waits for the next turn.

    Shape:
        `folded` counts znodes, and partitions where one znode or answer names several; `followed` counts changed
        partitions, and several at rest that are seen first as one; `greeted` partitions in full updates; `measured`
        moves that are examined, listed, or measured by brokers; `deleted` partitions of deleted topics; `decided`
        topics, their due partitions, and the parts of requests that wait for them. One step decides up to `requested`
        parts about one topic, however much else a turn has done, because each step writes the topic's znode. `hosted`
        counts the topics and partitions of brokers that come, leave or shut down.
        Each of `folded`, `followed` and `decided` would fill a turn alone: `after` says what is left for the others.
    """

    folded: int = 6_000
    followed: int = 2_500
    greeted: int = 5_000
    measured: int = 1_500
    deleted: int = 1_500
    decided: int = 600
    requested: int = 1_000
    hosted: int = 5_000

    def after(self, *, folded: int, followed: int = 0) -> TurnBudget:
        """What the rest of a turn may do that has folded and followed so much: never less than a part of each."""
        left = max(1 - folded / self.folded - followed / self.followed, LEAST_LEFT)
        return replace(
            self,
            followed=_part(self.followed, left),
            greeted=_part(self.greeted, left),
            decided=_part(self.decided, left),
        )


def _part(most: int, share: float) -> int:
    return max(1, int(most * share))


class AuthorizerSettings(Struct, frozen=True):
    """Kafka's `super.users` and `allow.everyone.if.no.acl.found`."""

    super_users: tuple[str, ...] = ()
    allows_everyone_if_no_acl_is_found: bool = False


OPEN_ACL_BYTES = 27
"""The size, in ZooKeeper's protocol, of the ACL that gives everyone all rights."""


MIN_ISR_FIRST, ROUND_ROBIN, WEIGHT = "min-isr", "round-robin", "weight"
SMALL, LARGE = "small", "large"
MOVE_ORDERS = (MIN_ISR_FIRST, SMALL, LARGE, ROUND_ROBIN, WEIGHT)
"""By what waiting moves may be put in order, before the order in which they were accepted."""


class MachineSettings(Struct, frozen=True):
    """The settings that decisions depend on.

    Shape:
        `unclean_election_of_brokers` is the brokers' own setting, which overrides the cluster-wide dynamic one; None if
        they have none. `deletes_topics` is None while unknown: then no topic is deleted, and no deletion request is
        dropped. `creation_policy` is the Java class that would have to judge new topics; empty if there is none.

        `leaders_write_isr`: brokers may have an inter.broker.protocol.version below 2.7-IV2; then leaders write state
        znodes themselves, and those of moving partitions are watched. `has_feature_versioning`: the version is at least
        2.7-IV0; then `/feature` is enabled.

    Units:
        `deletion_patience_s` is how long a move waits for live removed replicas to confirm the deletion of their logs.
        `rebalance_every_s` is Kafka's leader.imbalance.check.interval.seconds; None turns rebalancing off.
        `znode_size_limit` is ZooKeeper's jute.maxbuffer in bytes, which limits the whole request that writes a znode.
        `chroot_bytes` is the length of the chroot that ZooKeeper adds to each path, `acl_bytes` that of the longest
        ACL. `status_retention_ms` is how long the status of a finished reassignment request is kept.
        `keeps_reassignment_znodes`: this controller maintains `/admin/reassignments` (KIP-236). `token_expiry_check_s`
        is Kafka's delegation.token.expiry.check.interval.ms; None leaves delegation tokens alone. `clock_zero_ms` is
        the Unix time at which the machine's clock showed 0. Without `authorizer` every request is allowed.
        `quota_window_s` is how many seconds' worth of its quota a client may use at once. More than
        `writes_a_transaction` writes that belong together take several transactions. `software` identifies this
        controller to tools; the default is for journals that lack it. `is_observing`: it leads nothing and is not
        registered. Its transactions are never sent; each is answered by a conflict, which is no reason to wait.
        `moves_at_once`, `moves_into_broker`, `moves_out_of_broker` and `moves_into_rack` limit the moves that copy and
        are in flight, `changes_a_second` those that begin and copy nothing; None is no limit. `moves_wait_for_znodes`:
        a move waits while its topic's znode has no room for it. After `moves_give_up_s` a client's move that has not
        begun is dropped; None lets it wait. `moves_need_min_isr`, `moves_need_brokers`: no move
        begins that copies while a partition is offline or below its min.insync.replicas, or while a broker with
        replicas is away, and has been for `moves_need_brokers_after_s`. None begins that copies to a broker that has
        not been registered for `moves_need_receivers_s`, or to one whose log directories would have less than
        `moves_need_disks_percent` left; 0 does not look at them. What is not known is not waited for if
        `moves_ignore_unknown_disks`. `min_insync_replicas` is the value of topics that have none of
        their own. `moves_order` are the policies, of `MOVE_ORDERS`, by which moves that wait begin, chained. Moves that
        copy begin only within `moves_windows`, if there are any. `keeps_move_records`: what each request moved, from
        where, is kept with its status. `accounts_moves`: each end of a move is an effect. `moves_throttle` is what each
        receiving broker may copy a second, in bytes, for moves whose request gives no rate; None is no throttle.
        `moves_throttle_min` is down to what a rate is halved while replicas beside the moves cannot keep up; None keeps
        rates as they are asked for.
    """

    own_id: BrokerId
    cluster_id: str | None = None
    unclean_election: bool = False
    unclean_election_of_brokers: bool | None = None
    leaders_write_isr: bool = False
    has_leader_recovery: bool = True
    has_feature_versioning: bool = True
    assigns_topic_ids: bool = True
    deletes_topics: bool | None = True
    creation_policy: str = ""
    deletion_patience_s: float = 10.0
    znode_size_limit: int = 1_048_575
    chroot_bytes: int = 0
    rebalance_every_s: float | None = None
    imbalance_percentage: int = 10
    shutdown_redundancy: int = 0
    defaults: TopicDefaults = TopicDefaults()
    status_retention_ms: int = DAY_MS
    token_expiry_check_s: float | None = None
    clock_zero_ms: int = 0
    keeps_reassignment_znodes: bool = False
    authorizer: AuthorizerSettings | None = None
    quota_window_s: float = 11.0
    budget: TurnBudget = TurnBudget()
    writes_a_transaction: int = WRITES_A_TRANSACTION
    acl_bytes: int = OPEN_ACL_BYTES
    software: str = "kafka-zk-controller 0.1"
    is_observing: bool = False
    moves_at_once: int | None = None
    moves_into_broker: int | None = None
    moves_out_of_broker: int | None = None
    moves_into_rack: int | None = None
    changes_a_second: int | None = None
    moves_wait_for_znodes: bool = False
    moves_give_up_s: float | None = None
    moves_need_min_isr: bool = False
    moves_need_brokers: bool = False
    min_insync_replicas: int = 1
    moves_order: tuple[str, ...] = ()
    moves_windows: tuple[Window, ...] = ()
    keeps_move_records: bool = False
    accounts_moves: bool = False
    moves_throttle: int | None = None
    moves_need_brokers_after_s: float = 0.0
    moves_need_receivers_s: float = 0.0
    moves_throttle_min: int | None = None
    moves_need_disks_percent: int = 0
    moves_ignore_unknown_disks: bool = False


ADJUSTABLE = frozenset(
    {
        "changes_a_second",
        "creation_policy",
        "defaults",
        "deletion_patience_s",
        "imbalance_percentage",
        "min_insync_replicas",
        "moves_at_once",
        "moves_give_up_s",
        "moves_ignore_unknown_disks",
        "moves_into_broker",
        "moves_into_rack",
        "moves_need_brokers",
        "moves_need_brokers_after_s",
        "moves_need_disks_percent",
        "moves_need_min_isr",
        "moves_need_receivers_s",
        "moves_order",
        "moves_out_of_broker",
        "moves_wait_for_znodes",
        "moves_throttle",
        "moves_throttle_min",
        "moves_windows",
        "quota_window_s",
        "rebalance_every_s",
        "shutdown_redundancy",
        "status_retention_ms",
        "token_expiry_check_s",
        "unclean_election",
        "unclean_election_of_brokers",
    }
)
"""What may change during a term, by `SettingsChanged`; a term keeps the rest.

Not `deletes_topics`: a topic whose deletion has begun lacks logs, and must not be led again.
"""


def adjusted(before: MachineSettings, wanted: MachineSettings) -> MachineSettings:
    """The settings of a term that goes on: what is adjustable as wanted, everything else as before."""
    return replace(before, **{name: getattr(wanted, name) for name in ADJUSTABLE})
