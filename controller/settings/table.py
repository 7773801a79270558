"""Which settings are there? One table drives reading, listing and the documentation."""

from __future__ import annotations

from msgspec import Struct

from controller.settings.kinds import LISTENERS, MILLISECONDS, PORT, SERVERS, TEXT, TRUTH, Kind, Value, choice, number

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Setting(Struct, frozen=True):
    """One key: what it takes, what it is otherwise, and what it means.

    `is_kafkas` where Kafka has the key, too, with the same meaning; `same_as` names the key whose value is taken where
    this one is not set.
    """

    key: str
    kind: Kind
    default: Value | None
    doc: str
    is_kafkas: bool = True
    is_required: bool = False
    same_as: str | None = None


def _ours(key: str, kind: Kind, default: Value | None, doc: str) -> Setting:
    return Setting(key, kind, default, doc, is_kafkas=False)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "zookeeper.connect",
        SERVERS,
        None,
        "ZooKeeper's servers, and the chroot if the brokers use one. The same as on the brokers.",
        is_required=True,
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        number(1000),
        18000,
        "How long ZooKeeper waits before it declares this process dead, so that a standby may follow.",
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        MILLISECONDS,
        None,
        "How long one attempt to reach ZooKeeper may take; attempts repeat.",
        same_as="zookeeper.session.timeout.ms",
    ),
    Setting(
        "zookeeper.max.in.flight.requests",
        number(1, 10_000),
        64,
        "Requests that ZooKeeper has not answered yet. Kafka's default is 10; ours is higher, because taking over is "
        "one long pipeline of reads, and its length in round trips is what a failover takes.",
    ),
    _ours(
        "jute.maxbuffer",
        number(65536),
        1048575,
        "Largest request in bytes that the ZooKeeper servers take; not above their own jute.maxbuffer.",
    ),
    Setting(
        "broker.id",
        number(0),
        None,
        "The id of this replica of the controller: not that of a broker, nor of another replica.",
        is_required=True,
    ),
    Setting(
        "broker.id.generation.enable",
        TRUTH,
        True,
        "Whether brokers may get generated ids, as on the brokers. Then broker.id must stay out of their range.",
    ),
    Setting("reserved.broker.max.id", number(0), 1000, "Generated broker ids start above it. As on the brokers."),
    Setting(
        "broker.rack",
        TEXT,
        None,
        "This replica's rack. Set it exactly if the brokers have racks: brokers and tools refuse to place replicas of "
        "a new topic when some nodes have a rack and some have none.",
    ),
    Setting(
        "listeners",
        LISTENERS,
        "PLAINTEXT://127.0.0.1:9095",
        "Where this process listens for brokers and clients, with the brokers' listener names.",
    ),
    Setting(
        "advertised.listeners",
        LISTENERS,
        None,
        "Where brokers and clients are told to connect: addresses of this host that they can reach.",
        same_as="listeners",
    ),
    Setting(
        "listener.security.protocol.map",
        TEXT,
        ",".join(f"{protocol}:{protocol}" for protocol in PROTOCOLS),
        "The security protocol of each listener name, as on the brokers. Only PLAINTEXT can be used yet.",
    ),
    Setting(
        "inter.broker.listener.name",
        TEXT,
        None,
        "The listener over which brokers, and the controller, talk to brokers. As on the brokers.",
    ),
    Setting(
        "security.inter.broker.protocol",
        choice(*PROTOCOLS),
        "PLAINTEXT",
        "The same, named by its security protocol. Set only one of the two.",
    ),
    Setting(
        "control.plane.listener.name",
        TEXT,
        None,
        "Set it if the brokers have it: they then reach the controller over the listener of this name, so it must be "
        "advertised. Commands to brokers go over the inter-broker listener nevertheless.",
    ),
    Setting(
        "inter.broker.protocol.version",
        TEXT,
        None,
        "The brokers' own setting, 2.4 to 3.9. Kafka takes the version of its jar where it is not set; this process "
        "has none, and must speak what the oldest broker understands.",
        is_required=True,
    ),
    _ours(
        "controller.takeover",
        choice("always", "when-vacant"),
        "always",
        "Whether to replace a broker's native controller at once, or to wait until nobody holds /controller.",
    ),
    Setting(
        "controller.socket.timeout.ms",
        MILLISECONDS,
        30000,
        "How long a broker may take to answer a command before it is sent again.",
    ),
    Setting(
        "request.timeout.ms", MILLISECONDS, 30000, "How long relayed requests, and giving up /controller, may take."
    ),
    _ours(
        "controller.drain.timeout.ms",
        MILLISECONDS,
        5000,
        "How long a process that is told to stop waits for brokers to acknowledge what it told them.",
    ),
    Setting("socket.request.max.bytes", number(1024), 104857600, "Largest request that a client may send."),
    Setting("connections.max.idle.ms", MILLISECONDS, 600000, "Clients that are idle for longer are hung up on."),
    Setting(
        "max.connections",
        number(1),
        2000,
        "Connections on all listeners together. Kafka's default is no limit.",
    ),
    Setting(
        "unclean.leader.election.enable",
        TRUTH,
        False,
        "Whether a replica that is not in sync may lead when no other can, at the price of records. The default of "
        "all brokers, as `kafka-configs --entity-default` sets it at run time, outweighs it, and a topic's own setting "
        "outweighs both.",
    ),
    Setting(
        "delete.topic.enable",
        TRUTH,
        True,
        "Whether topics may be deleted. Where not, wishes to delete one are struck out.",
    ),
    Setting(
        "num.partitions",
        number(1),
        1,
        "How many partitions a topic gets that is created without saying so. As on the brokers.",
    ),
    Setting(
        "default.replication.factor",
        number(1, 32767),
        1,
        "How many replicas each of its partitions gets then. As on the brokers.",
    ),
    Setting(
        "auto.leader.rebalance.enable",
        TRUTH,
        True,
        "Whether leadership goes back to the first replica of partitions by itself.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        number(1),
        300,
        "How often that is looked at; the first time five seconds after a take-over.",
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        number(0),
        10,
        "How many of the partitions that a broker is first for may be led by others before it gets leadership back.",
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms",
        MILLISECONDS,
        3600000,
        "How often expired delegation tokens are looked for and deleted; no key is needed for that.",
    ),
    _ours(
        "controlled.shutdown.redundancy",
        number(0),
        0,
        "How many other in-sync replicas each partition of a broker must keep; with fewer its controlled shutdown is "
        "refused, naming them, and it asks again. Partitions without so many other replicas aside. "
        "0: not checked, as in Kafka.",
    ),
    _ours(
        "reassignment.deletion.patience.ms",
        MILLISECONDS,
        10000,
        "How long a move that is otherwise done waits for leaving replicas to confirm that they deleted their log. "
        "What is not confirmed is remembered in ZooKeeper and asked for again.",
    ),
    _ours(
        "reassign.partitions.status.min.retention.ms",
        MILLISECONDS,
        86400000,
        "How long /admin/reassign_partitions_status tells what became of a request after its end (KIP-179).",
    ),
    _ours(
        "controller.reassignments.znodes",
        TRUTH,
        False,
        "Whether the children of /admin/reassignments start, change and cancel moves, and show all that are in "
        "progress (KIP-236). All replicas of the controller should have the same value.",
    ),
    _ours("http.host", TEXT, "127.0.0.1", "Where /metrics, /livez, /readyz, /leader and /reassignments are served."),
    _ours("http.port", PORT, 9640, "Its port; 0 turns it off."),
    _ours("log.level", choice("debug", "info", "warning", "error"), "info", "What is logged: this, and what is worse."),
    _ours(
        "log.format",
        choice("auto", "text", "json"),
        "auto",
        "text for people, json for machines; auto is text on a terminal and json elsewhere.",
    ),
    _ours("journal.dir", TEXT, None, "Where every turn is recorded, to step through incidents later. Off unless set."),
)
