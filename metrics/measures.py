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
        `name` is without the product's prefix. `aliases` are the names under which the usual JMX exporters show Kafka's
        own measure of the same meaning, so that existing dashboards keep working.

    Units:
        The name says it: `_seconds`, `_bytes`; otherwise a count.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name that Prometheus sees; a histogram's series add `_bucket`, `_sum` and `_count`.

        >>> Measure("elections_won", Kind.COUNTER, "").shown_name
        'kafka_zk_controller_elections_won_total'
        """
        return PREFIX + self.name + ("_total" if self.kind is Kind.COUNTER else "")


FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
BATCHES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0)


def _gauge(name: str, meaning: str, labels: tuple[str, ...] = (), *, kafkas: str | None = None) -> Measure:
    aliases = () if kafkas is None else (f"kafka_controller_kafkacontroller_{kafkas.lower()}",)
    return Measure(name, Kind.GAUGE, meaning, labels, aliases=aliases)


def _counter(name: str, meaning: str, *labels: str, kafkas: str | None = None) -> Measure:
    """`kafkas` is the name of a meter in Kafka's ControllerStats, without the PerSec at its end."""
    # The exporter's own example configuration replaces the suffix, as Strimzi does; Confluent's dashboards keep it.
    stats = "" if kafkas is None else f"kafka_controller_controllerstats_{kafkas.lower()}"
    return Measure(name, Kind.COUNTER, meaning, labels, aliases=(f"{stats}_total", f"{stats}persec") if stats else ())


def _histogram(name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Measure:
    return Measure(name, Kind.HISTOGRAM, meaning, labels, buckets)


ELECTION = (
    _gauge("is_leader", "1 while this process is the controller, else 0.", kafkas="ActiveControllerCount"),
    _gauge("is_ready", "1 while this process leads, or could lead if it had to, else 0; /readyz says why."),
    _gauge("is_observing", "1 for a process that only observes (`kafka-zk-controller observe`), else 0."),
    _counter(
        "compared_decisions",
        "Decisions of the controller that leads beside those of this process, which only observes. `other leader`, "
        "`other ISR`, `not decided here` and `not done there` are differences; docs/operations.md explains the others.",
        "outcome",
    ),
    _gauge("phase", "1 for the phase that this process is in, 0 for the others.", ("phase",)),
    _gauge("migration_phase", "1 for the phase of a migration to KRaft that is seen, 0 for the others.", ("phase",)),
    _gauge("released", "1 while the cluster is released to Kafka's own controllers, else 0."),
    _gauge("paused_timestamp_seconds", "Unix time at which moves were paused (`kafka-zk-controller pause`), else 0."),
    _gauge("settings_pending_restart", "Settings changed in the configuration that count only after a restart."),
    _gauge("controller_epoch", "Controller epoch of this process' current or last term."),
    _counter("elections_won", "Elections that this process has won."),
    _counter("challenges", "Challenges of a leader that gave this process no sign of life, by outcome.", "outcome"),
    _counter("challenges_received", "Challenges by standbys that this process received while it led."),
    _counter(
        "replaced_alive",
        "Times that this process was replaced because it left a challenge unanswered for too long, although it lived.",
    ),
    _counter("terms_ended", "Terms of this process that have ended, for any reason."),
    _gauge("term_started_timestamp_seconds", "Unix time at which the current term started; 0 while not leading."),
    _gauge("standby_partitions", "Partitions that this standby keeps in memory; 0 unless controller.standby.warm."),
    _gauge(
        "standby_states_due", "States of partitions that have changed, and that this standby has yet to read again."
    ),
    _gauge("standby_zxid", "Zxid of the last answer from ZooKeeper that changed what this standby keeps in memory."),
    _gauge("term_loading_seconds", "Time that this process' last term took to load the state in ZooKeeper."),
)
CLUSTER = (
    _gauge("topics", "Topics.", kafkas="GlobalTopicCount"),
    _gauge("partitions", "Partitions.", kafkas="GlobalPartitionCount"),
    _gauge("live_brokers", "Brokers that are registered and not shutting down.", kafkas="ActiveBrokerCount"),
    _gauge("set_aside", "Topics, requests and writes in quarantine after an error, to be retried; /readyz names them."),
    _gauge("unreadable_znodes", "Znodes that are malformed, or that ZooKeeper does not let us read."),
    _gauge("offline_partitions", "Partitions without a live leader.", kafkas="OfflinePartitionsCount"),
    _counter(
        "unclean_elections",
        "Leaders elected that were not in sync: acknowledged records may be lost.",
        kafkas="UncleanLeaderElections",
    ),
    _gauge(
        "under_replicated_partitions",
        "Partitions with fewer in-sync replicas than replicas, not counting replicas that a move is adding.",
    ),
    _gauge(
        "preferred_replica_imbalance",
        "Partitions not led by their preferred (first) replica.",
        kafkas="PreferredReplicaImbalanceCount",
    ),
)
DELETIONS = (
    _gauge("topics_to_delete", "Topics being deleted.", kafkas="TopicsToDeleteCount"),
    _gauge(
        "topics_ineligible_to_delete",
        "Topics whose deletion is blocked by a broker that is offline or failed to delete a replica.",
        kafkas="TopicsIneligibleToDeleteCount",
    ),
    _gauge(
        "replicas_to_delete",
        "Replicas of topics being deleted that no broker has confirmed as deleted.",
        kafkas="ReplicasToDeleteCount",
    ),
    _gauge(
        "replicas_ineligible_to_delete",
        "Replicas of topics being deleted on a broker that is offline or failed to delete them.",
        kafkas="ReplicasIneligibleToDeleteCount",
    ),
)
REASSIGNMENTS = (
    _gauge("moving_partitions", "Partitions with adding or removing replicas."),
    _gauge("legacy_reassignment_entries", "Unfinished entries of /admin/reassign_partitions."),
    _gauge("waiting_moves_cluster", "Moves that wait because as many as allowed are in flight, or others come first."),
    _gauge("waiting_moves_into", "Moves that wait because a broker receives as many as allowed."),
    _gauge("waiting_moves_out", "Moves that wait because the leader of their partition sends as many as allowed."),
    _gauge("waiting_moves_rack", "Moves that wait because the brokers of a rack receive as many as allowed."),
    _gauge("waiting_moves_znode", "Moves that wait because the znode of their topic has no room for more at once."),
    _gauge("waiting_moves_changes", "Moves that copy nothing and wait for the rate of such changes."),
    _gauge("waiting_moves_absent", "Moves that wait for a broker that is not alive."),
    _gauge("waiting_moves_windows", "Moves that wait for the next of reassignment.moves.windows."),
    _gauge("waiting_moves_min_isr", "Moves that wait until no partition is offline or below min.insync.replicas."),
    _gauge("waiting_moves_brokers", "Moves that wait until every broker with replicas is alive."),
    _gauge(
        "waiting_moves_receivers",
        "Moves that wait until the brokers that would receive have been registered for long enough.",
    ),
    _gauge(
        "waiting_moves_disks",
        "Moves that wait until the brokers that would receive have room on their disks, or say how much they have.",
    ),
    _gauge(
        "brokers_without_room",
        "Brokers whose disks have too little room for moves that wait; counted only where moves wait for that.",
    ),
    _gauge(
        "brokers_with_unknown_room",
        "Brokers that would receive what waits, and of whose disks it is not known how much room they have; counted "
        "only where moves wait for that.",
    ),
    _gauge(
        "partitions_below_min_isr",
        "Partitions that are offline or below min.insync.replicas; counted only where moves wait for that.",
    ),
    _gauge("brokers_away", "Brokers with replicas that are not alive; counted only where moves wait for them."),
    _gauge(
        "waiting_moves_without_size",
        "Moves that wait whose size no broker has said; counted only where the order of moves depends on sizes, or "
        "moves wait for room on disks.",
    ),
    _gauge(
        "waiting_moves_oldest_size_timestamp_seconds",
        "When brokers have said the sizes of moves that wait: the oldest time of all, 0 if no size is known.",
    ),
    _gauge("waiting_moves_paused", "Moves that limits have kept waiting, and that a pause keeps from beginning."),
    _gauge(
        "unconfirmed_replica_deletions",
        "Replicas removed from an assignment whose broker has not confirmed that it deleted them.",
    ),
    _gauge(
        "replicas_without_broker",
        "Replicas assigned to a controller's id for lack of a broker. The next broker that registers gets them.",
    ),
    _counter("reassignments_started", "Partition moves that started, or were in progress when a term started."),
    _gauge("reassignment_remaining_bytes", "Bytes that a receiving broker has yet to copy.", ("broker",)),
    _gauge("reassignment_bytes_per_second", "Rate at which a receiving broker copies moving partitions.", ("broker",)),
    _gauge(
        "reassignment_throttle_bytes_per_second",
        "Rate of a receiving broker's throttled moves; 0 if there is none, or someone else has changed it.",
        ("broker",),
    ),
    _counter(
        "reassignment_throttle_halvings",
        "Times that the rate of a receiving broker was halved, because a replica beside its moves could not keep up.",
    ),
    _gauge("reassignment_longest_stage_seconds", "Longest time that any move has been in its current stage."),
    _gauge("open_reassignment_requests", "Reassignment requests that are not finished."),
    _histogram(
        "reassignment_seconds",
        "Duration of finished partition moves, measured from when the term first saw them.",
        SLOW,
    ),
)
TURNS = (
    _gauge("event_queue_depth", "Events waiting to be processed."),
    _histogram("turn_seconds", "Time to process one batch of events (a turn).", FAST),
    _histogram(
        "turn_cpu_seconds",
        "Processor time of a turn. Where it is much less than turn_seconds, the machine was busy with other things.",
        FAST,
    ),
    _histogram(
        "loop_seconds",
        "Longest time, of each second, for which the event loop did not look for input: all else waited meanwhile.",
        FAST,
    ),
    _histogram("loop_cpu_seconds", "The same, as processor time of the event loop's thread.", FAST),
    _histogram("turn_events", "Events processed in one turn.", BATCHES),
)
ZOOKEEPER = (
    _counter(
        "zookeeper_transactions",
        "ZooKeeper transactions by outcome: committed, conflicted, fenced, unknown.",
        "outcome",
    ),
    _counter("zookeeper_writes", "Znode writes submitted, by kind of znode.", "kind"),
    _histogram("zookeeper_transaction_seconds", "Time from submitting a transaction to its outcome.", FAST),
    _gauge("zookeeper_transactions_in_flight", "Submitted transactions without an outcome yet."),
    _counter("zookeeper_znodes_read", "Znodes read, including those found absent."),
)
BROKERS = (
    _counter("broker_commands", "Commands issued to brokers, by kind.", "command"),
    _histogram(
        "broker_command_seconds",
        "Time from the first attempt to send a command to the broker's response.",
        FAST,
        "command",
    ),
    _counter("broker_request_bytes", "Bytes of requests that brokers answered.", "broker"),
    _counter("broker_delivery_retries", "Failed attempts to deliver a command; each is retried.", "broker"),
    _gauge("broker_queue_depth", "Commands that a broker has not acknowledged.", ("broker",)),
)
CLIENTS = (
    _counter("requests", "Requests answered, by API and listener.", "api", "listener"),
    _histogram("request_seconds", "Time from a request's last byte to its response.", FAST, "api"),
    _gauge("connections", "Open connections of brokers and clients."),
    _gauge(
        "clients_refused",
        "1 while clients are refused because brokers have an authorizer that this process lacks, else 0.",
    ),
    _counter("clients_disconnected", "Clients that the controller disconnected or turned away, by reason.", "reason"),
)
QUOTAS = (
    _counter("requests_throttled", "Requests answered with a throttle time, by kind: a quota was exceeded.", "kind"),
)
TOKENS = (_counter("delegation_tokens_expired", "Expired delegation tokens deleted."),)
PARTS = (
    _gauge("failing_parts", "Parts of this process whose last attempt failed; they are retried, /readyz names them."),
    _counter("part_failures", "Failures of parts of this process, which go on regardless, by part.", "part"),
)
NOTICES = (
    _counter("notices", "Notices (warnings that need attention), by kind; each is also logged.", "kind"),
    _counter("contained_errors", "Errors that cost one topic, request or write and nothing else."),
)
LOG = (
    _counter(
        "log_lines_dropped",
        "Log lines that were not written, by reason: the log was not read in time, or too many were alike.",
        "reason",
    ),
)

BUILD = (_gauge("build_info", "1; the labels have the versions of this program and of Python.", ("version", "python")),)

MEASURES: tuple[Measure, ...] = (
    *ELECTION,
    *CLUSTER,
    *DELETIONS,
    *REASSIGNMENTS,
    *TURNS,
    *ZOOKEEPER,
    *BROKERS,
    *CLIENTS,
    *QUOTAS,
    *TOKENS,
    *PARTS,
    *NOTICES,
    *LOG,
    *BUILD,
)
BY_NAME = {measure.name: measure for measure in MEASURES}

_INTRODUCTION = """# Metrics

<!-- Made by `kafka-zk-controller metrics --output markdown`; a test compares. -->

Served as Prometheus or OpenMetrics text at `/metrics` on `http.host:http.port`. Metrics about the cluster come from the
replica that leads; a standby reports 0, as Kafka's brokers do. A process that observes (`is_observing`) shows them
whichever controller leads: leave it out of sums over replicas. An alias is the name under which JMX exporters (with
lower-case names) publish Kafka's own metric of the same meaning, so existing dashboards and alerts keep working.

Counters begin at 0, also those with labels if the value of the label is known beforehand, so `increase()` includes the
first event; counters by broker begin when the broker is first sent a command. On Linux there are also `process_*`
(processor time, memory, descriptors, start time), as of any Prometheus client. With the environment variable
`PROMETHEUS_DISABLE_CREATED_SERIES=false` each counter and histogram also has a series `_created`, the time at which it
began.
"""


def as_markdown() -> str:
    """The page about all measures, for the documentation."""
    rows = [
        f"| `{m.shown_name}` | {m.kind} | {', '.join(m.labels)} | {m.help} | {', '.join(f'`{a}`' for a in m.aliases)} |"
        for m in MEASURES
    ]
    return "\n".join([_INTRODUCTION, "| name | kind | labels | meaning | alias |", "|---|---|---|---|---|", *rows, ""])
