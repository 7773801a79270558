"""What is measured? Each measure once: its name, kind, unit and meaning."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

PREFIX = "kafka_zk_controller_"


class Kind(StrEnum):
    """How a measure behaves."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Measure(Struct, frozen=True):
    """One measure.

    Shape:
        `name` is without the product's prefix. `alias` is the name under which the usual JMX exporters show Kafka's own
        measure of the same meaning, so that existing dashboards go on.

    Units:
        The name says it: `_seconds`, `_bytes`; otherwise a count.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    alias: str | None = None

    @property
    def shown_name(self) -> str:
        """The name that Prometheus sees; a histogram's series add `_bucket`, `_sum` and `_count`.

        >>> Measure("reigns", Kind.COUNTER, "").shown_name
        'kafka_zk_controller_reigns_total'
        """
        return PREFIX + self.name + ("_total" if self.kind is Kind.COUNTER else "")


FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
BATCHES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0)


def _gauge(name: str, meaning: str, labels: tuple[str, ...] = (), *, kafkas: str | None = None) -> Measure:
    alias = None if kafkas is None else f"kafka_controller_kafkacontroller_{kafkas.lower()}"
    return Measure(name, Kind.GAUGE, meaning, labels, alias=alias)


def _counter(name: str, meaning: str, *labels: str) -> Measure:
    return Measure(name, Kind.COUNTER, meaning, labels)


def _histogram(name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Measure:
    return Measure(name, Kind.HISTOGRAM, meaning, labels, buckets)


ELECTION = (
    _gauge("is_leader", "1 while this process is the controller.", kafkas="ActiveControllerCount"),
    _gauge("controller_epoch", "Controller epoch of this process' present or last reign."),
    _counter("reigns", "Elections that this process has won."),
    _counter("reigns_ended", "Reigns of this process that have ended, however."),
    _gauge("reign_started_timestamp_seconds", "Unix time at which the present reign began; 0 if none."),
    _gauge("loading_seconds", "How long the last reign took to load what ZooKeeper holds."),
)
CLUSTER = (
    _gauge("topics", "Topics.", kafkas="GlobalTopicCount"),
    _gauge("partitions", "Partitions.", kafkas="GlobalPartitionCount"),
    _gauge("live_brokers", "Brokers that are registered and not shutting down.", kafkas="ActiveBrokerCount"),
    _gauge("offline_partitions", "Partitions without a live leader.", kafkas="OfflinePartitionsCount"),
    _gauge("under_replicated_partitions", "Partitions whose ISR is smaller than their replicas, adding ones aside."),
    _gauge(
        "preferred_replica_imbalance",
        "Partitions not led by their first replica.",
        kafkas="PreferredReplicaImbalanceCount",
    ),
)
DELETIONS = (
    _gauge("topics_to_delete", "Topics that are being deleted.", kafkas="TopicsToDeleteCount"),
    _gauge(
        "topics_ineligible_to_delete",
        "Topics whose deletion waits for a broker that is offline or could not delete a replica.",
        kafkas="TopicsIneligibleToDeleteCount",
    ),
    _gauge(
        "replicas_to_delete",
        "Replicas of such topics that no broker has confirmed to be deleted.",
        kafkas="ReplicasToDeleteCount",
    ),
    _gauge(
        "replicas_ineligible_to_delete",
        "Those of them on a broker that is offline, or that could not delete them.",
        kafkas="ReplicasIneligibleToDeleteCount",
    ),
)
REASSIGNMENTS = (
    _gauge("moving_partitions", "Partitions with adding or removing replicas."),
    _gauge("legacy_entries", "Entries of /admin/reassign_partitions that are not done."),
    _gauge("unconfirmed_deletions", "Replicas that left an assignment, their deletion unconfirmed by the broker."),
    _counter("reassignments_started", "Moves of partitions that began, or were found under way when a reign began."),
    _gauge("reassignment_remaining_bytes", "Bytes that a receiving broker has yet to copy.", ("broker",)),
    _gauge("reassignment_bytes_per_second", "How fast a receiving broker copies what moves to it.", ("broker",)),
    _gauge("reassignment_longest_stage_seconds", "How long the move that waits longest has been in its stage."),
    _gauge("reassignment_requests_open", "Reassignment requests that are not done."),
    _histogram("reassignment_seconds", "How long the moves took that ended in this process' reign.", SLOW),
)
TURNS = (
    _gauge("queue_depth", "Events that wait for their turn."),
    _histogram("turn_seconds", "How long turns took.", FAST),
    _histogram("turn_events", "How many events one turn took in.", BATCHES),
)
ZOOKEEPER = (
    _counter("zookeeper_commits", "Transactions by outcome: committed, conflicted, fenced, unknown.", "outcome"),
    _counter("zookeeper_writes", "Znode writes decided, by kind.", "kind"),
    _histogram("zookeeper_commit_seconds", "From deciding a transaction to its outcome.", FAST),
    _gauge("zookeeper_in_flight", "Transactions without an outcome."),
    _counter("zookeeper_facts", "Znodes read."),
)
BROKERS = (
    _counter("broker_commands", "Commands decided, by kind.", "command"),
    _histogram("broker_command_seconds", "From the first attempt to a broker's answer.", FAST, "command"),
    _counter("broker_request_bytes", "Bytes of requests that brokers answered.", "broker"),
    _counter("broker_failures", "Attempts to deliver a command that failed and are repeated.", "broker"),
    _gauge("broker_queue_depth", "Commands that a broker has not acknowledged.", ("broker",)),
)
CLIENTS = (
    _counter("requests", "Requests answered, by API and listener.", "api", "listener"),
    _histogram("request_seconds", "From a request's last byte to its answer.", FAST, "api"),
    _gauge("connections", "Open connections of brokers and clients."),
    _counter("clients_hung_up", "Clients hung up on, or not let in, because of what they did, by reason.", "why"),
)
TOKENS = (_counter("delegation_tokens_expired", "Expired delegation tokens that were deleted."),)
NOTICES = (_counter("notices", "Things a person should know, by kind; each is in the log.", "kind"),)

MEASURES: tuple[Measure, ...] = (
    *ELECTION,
    *CLUSTER,
    *DELETIONS,
    *REASSIGNMENTS,
    *TURNS,
    *ZOOKEEPER,
    *BROKERS,
    *CLIENTS,
    *TOKENS,
    *NOTICES,
)
BY_NAME = {measure.name: measure for measure in MEASURES}

_INTRODUCTION = """# Metrics

<!-- Made by `kafka-zk-controller metrics --output markdown`; a test compares. -->

Served as Prometheus or OpenMetrics text at `/metrics` of `http.host:http.port`. Measures of the cluster are those of
the process that leads; a standby shows 0, as Kafka's brokers do. An alias has the name that JMX exporters (with names
in lower case) give Kafka's own measure, so existing dashboards and alerts go on.
"""


def as_markdown() -> str:
    """The page about all measures, for the documentation."""
    rows = [
        f"| `{m.shown_name}` | {m.kind} | {', '.join(m.labels)} | {m.help} | {f'`{m.alias}`' if m.alias else ''} |"
        for m in MEASURES
    ]
    return "\n".join([_INTRODUCTION, "| name | kind | labels | meaning | alias |", "|---|---|---|---|---|", *rows, ""])
