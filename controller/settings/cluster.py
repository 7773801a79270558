"""What does a native controller take from its broker, so that the brokers' value applies where none is set here?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, convert
from msgspec.structs import asdict

from controller.core.settings import TopicDefaults
from controller.settings.kinds import Value
from controller.settings.values import Values

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "unclean.leader.election.enable": "unclean_election",
        "delete.topic.enable": "deletes_topics",
        "num.partitions": "partition_count",
        "default.replication.factor": "replication_factor",
        "min.insync.replicas": "min_insync_replicas",
        "controller.quota.window.num": "quota_windows",
        "controller.quota.window.size.seconds": "quota_window_size_s",
        "auto.leader.rebalance.enable": "is_rebalancing",
        "leader.imbalance.check.interval.seconds": "rebalance_check_s",
        "leader.imbalance.per.broker.percentage": "imbalance_percentage",
        "delegation.token.expiry.check.interval.ms": "token_expiry_check_ms",
    }
)
"""The rule for each key that is marked † in docs/settings.md."""


class ClusterSettings(Struct, frozen=True):
    """Settings that brokers have as well: those made here, or the brokers', which may change while this process runs.

    Shape:
        Leadership returns to preferred replicas only if it `is_rebalancing`. A user may spend `quota_windows` of its
        quota at once.
    """

    unclean_election: bool
    deletes_topics: bool
    partition_count: int
    replication_factor: int
    min_insync_replicas: int
    quota_windows: int
    quota_window_size_s: int
    is_rebalancing: bool
    rebalance_check_s: int
    imbalance_percentage: int
    token_expiry_check_ms: int

    def overridden(self, by_key: Mapping[str, Value]) -> ClusterSettings:
        """The same, with these values of the brokers in force."""
        return convert({**asdict(self), **{FIELDS[key]: value for key, value in by_key.items()}}, ClusterSettings)

    @property
    def topic_defaults(self) -> TopicDefaults:
        """What a topic gets where its creator leaves it to the cluster."""
        return TopicDefaults(self.partition_count, self.replication_factor)

    @property
    def rebalance_every_s(self) -> float | None:
        """How often the balance of leaders is checked; None if leadership never returns."""
        return float(self.rebalance_check_s) if self.is_rebalancing else None

    @property
    def quota_window_s(self) -> float:
        """How many seconds of its quota a user may spend at once."""
        return float(self.quota_windows * self.quota_window_size_s)


def cluster_of(values: Values) -> ClusterSettings:
    """Build it from the keys that brokers have as well."""
    return convert({field: values.by_key[key] for key, field in FIELDS.items()}, ClusterSettings)
