"""What of the configuration do decisions depend on?"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.ids import BrokerId

DAY_MS = 24 * 60 * 60 * 1000
WRITES_A_TRANSACTION = 300


class TopicDefaults(Struct, frozen=True):
    """What a topic gets whose creator leaves it to the cluster: `num.partitions`, `default.replication.factor`."""

    partition_count: int = 1
    replication_factor: int = 1


class TurnBudget(Struct, frozen=True):
    """How much one turn may do, so that nothing else in the process waits for long; what is left is done in the next.

    Shape:
        `folded` are znodes, and partitions where one znode or answer names several; `followed` partitions that have
        changed; `greeted` partitions that are told to brokers that know nothing yet; `measured` moves that are looked
        at, listed, or measured by brokers; `deleted` partitions that go with their topic; `decided` topics, their
        partitions that are due, and parts of requests that wait for them. Of one topic up to `requested` parts are
        decided in one step, because each step writes the topic's znode.
    """

    folded: int = 6_000
    followed: int = 2_500
    greeted: int = 5_000
    measured: int = 1_500
    deleted: int = 1_500
    decided: int = 600
    requested: int = 1_000


class AuthorizerSettings(Struct, frozen=True):
    """Kafka's `super.users` and `allow.everyone.if.no.acl.found`."""

    super_users: tuple[str, ...] = ()
    allows_everyone_if_no_acl_is_found: bool = False


OPEN_ACL_BYTES = 27
"""Of the ACL that gives everybody all rights, in ZooKeeper's protocol."""


class MachineSettings(Struct, frozen=True):
    """What of the configuration decisions depend on.

    Shape:
        `unclean_election_of_brokers` is what brokers have for themselves, which counts for more than what is set at
        run time for all of them; None where they have nothing. `deletes_topics` is None while it is not known: then no
        topic is deleted, and no request to delete one is dropped. `creation_policy` is the Java class that would have
        to judge new topics, empty where there is none.
        `leaders_write_isr` says that brokers may have an inter.broker.protocol.version below 2.7-IV2: leaders then
        write state znodes themselves, and those of moving partitions are watched. `has_feature_versioning` says that it
        is at least 2.7-IV0: `/feature` is then enabled.

    Units:
        `deletion_patience_s` is how long a move waits for leaving live replicas to confirm their deletion.
        `rebalance_every_s` is Kafka's leader.imbalance.check.interval.seconds; None turns rebalancing off.
        `znode_size_limit` is in bytes, of a whole request with which a znode is written: ZooKeeper's jute.maxbuffer.
        `chroot_bytes` is how much longer than here each path is in ZooKeeper, `acl_bytes` how long the longest ACL is.
        `status_retention_ms` is how long the status of a finished reassignment request is kept.
        `keeps_reassignment_znodes` says that `/admin/reassignments` is followed (KIP-236). `token_expiry_check_s` is
        Kafka's delegation.token.expiry.check.interval.ms; None leaves delegation tokens alone. `clock_zero_ms` is the
        Unix time at which the machine's clock showed 0. Without `authorizer` everybody may do everything.
        `quota_window_s` is how many seconds of its quota somebody may use at once. More than `writes_a_transaction`
        writes that belong together take several transactions.
        `software` is what tools know this controller by; the default is for journals that lack it.
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
