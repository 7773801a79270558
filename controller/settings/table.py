"""Which settings are there? One table drives parsing, listing and the documentation."""

from __future__ import annotations

from controller.settings.kinds import (
    AUTHORIZER,
    COUNTS,
    LISTENERS,
    MILLISECONDS,
    PORT,
    PRINCIPALS,
    TEXT,
    TRUTH,
    choice,
    names,
    number,
)
from controller.settings.moves_table import MOVES
from controller.settings.setting import Setting, ours
from controller.settings.zookeeper_table import ZOOKEEPER

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
HTTP_HOST, HTTP_PORT = "127.0.0.1", 9640

SETTINGS: tuple[Setting, ...] = (
    *ZOOKEEPER,
    Setting(
        "broker.id",
        number(0),
        None,
        "The id of this replica of the controller; no broker and no other replica may have it.",
        is_required=True,
    ),
    Setting(
        "broker.id.generation.enable",
        TRUTH,
        True,
        "Whether brokers may get generated ids; as on the brokers. If so, broker.id must be below their range.",
    ),
    Setting("reserved.broker.max.id", number(0), 1000, "Generated broker ids start above it; as on the brokers."),
    Setting(
        "broker.rack",
        TEXT,
        None,
        "This replica's rack. Set it if, and only if, the brokers have racks: brokers and tools refuse to place a new "
        "topic's replicas when only some nodes have a rack.",
    ),
    Setting(
        "listeners",
        LISTENERS,
        "PLAINTEXT://127.0.0.1:9095",
        "Addresses on which this process listens for brokers and clients, with the brokers' listener names.",
    ),
    Setting(
        "advertised.listeners",
        LISTENERS,
        None,
        "Addresses at which brokers and clients reach this process.",
        same_as="listeners",
    ),
    Setting(
        "listener.security.protocol.map",
        TEXT,
        ",".join(f"{protocol}:{protocol}" for protocol in PROTOCOLS),
        "The security protocol of each listener name; as on the brokers. See docs/security.md for what secures a "
        "listener: ssl.…, sasl.… and listener.name.<name>.….",
    ),
    Setting(
        "inter.broker.listener.name",
        TEXT,
        None,
        "The listener for connections to brokers, from brokers and from this controller; as on the brokers.",
    ),
    Setting(
        "security.inter.broker.protocol",
        choice(*PROTOCOLS),
        "PLAINTEXT",
        "Selects the inter-broker listener by its security protocol. Do not set both.",
    ),
    Setting(
        "control.plane.listener.name",
        TEXT,
        None,
        "Set it if the brokers do: they then connect to the controller over this listener, so it must be advertised. "
        "Commands are sent over it, too, to brokers that have it.",
    ),
    Setting(
        "sasl.mechanism.inter.broker.protocol",
        choice("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        "GSSAPI",
        "The mechanism by which this process logs in at brokers over the inter-broker listener; as on the brokers.",
    ),
    Setting(
        "connection.failed.authentication.delay.ms",
        number(0),
        100,
        "How long a client whose login failed waits for the answer.",
        counts_at_once=True,
    ),
    Setting(
        "inter.broker.protocol.version",
        TEXT,
        "auto",
        "auto: that of the oldest broker, determined from the brokers and followed while they are upgraded. A version "
        "(2.4 to 3.9) is kept: the same as on the brokers or, where they leave it unset, that of the oldest broker.",
    ),
    ours(
        "controller.takeover",
        choice("always", "when-vacant"),
        "always",
        "Whether to replace a native controller at once, or to wait until /controller is vacant.",
        counts_at_once=True,
    ),
    ours(
        "controller.standby.warm",
        TRUTH,
        False,
        "Whether this replica keeps all topics in memory while another controller leads, so that after a claim it "
        "reads only what has changed. Costs the memory of a leader, and in ZooKeeper a watch for each topic and "
        "partition. Not together with journal.dir, whose terms must read everything.",
    ),
    ours(
        "controller.standby.recursive.watch",
        TRUTH,
        False,
        "Whether a warm standby has one recursive watch in ZooKeeper instead of one for each partition. Servers before "
        "3.6 do not know recursive watches; there it has one for each, as with false.",
    ),
    ours(
        "controller.challenge.timeout.ms",
        number(0),
        0,
        "How long a leader of ours that gives a standby no sign of life may leave the standby's challenge in ZooKeeper "
        "unanswered before it is replaced. 0: this replica challenges no leader, and one that dies is replaced when "
        "its session ends. See docs/operations.md for what to set.",
    ),
    ours(
        "controller.preflight.tolerate",
        names("permissions", "brokers", "rack", "protocol", "authorizer", "advertised-listeners"),
        None,
        "Checks before the first claim (see `run --check-cluster`) whose failure is only a warning.",
    ),
    Setting(
        "controller.socket.timeout.ms",
        MILLISECONDS,
        30000,
        "How long to wait for a broker's response before a command is sent again.",
        counts_at_once=True,
    ),
    Setting(
        "request.timeout.ms",
        MILLISECONDS,
        30000,
        "Timeout of relayed requests, and of giving up /controller.",
        counts_at_once=True,
    ),
    ours(
        "controller.drain.timeout.ms",
        MILLISECONDS,
        5000,
        "On SIGTERM, how long to wait for brokers to acknowledge outstanding commands.",
        counts_at_once=True,
    ),
    Setting(
        "socket.request.max.bytes",
        number(1024),
        16 * 1024 * 1024,
        "Largest request that a client may send, in bytes. Kafka's default is six times this, for records that a "
        "controller never sees.",
        counts_at_once=True,
    ),
    Setting(
        "queued.max.request.bytes",
        number(-1),
        32 * 1024 * 1024,
        "Memory for requests above 16 KiB that are being received, in bytes; further ones wait. -1: no limit, as is "
        "Kafka's default.",
        counts_at_once=True,
    ),
    Setting(
        "socket.send.buffer.bytes",
        number(-1),
        102400,
        "The system's buffer for answers that a client has not read, for each connection. -1: the system's default.",
    ),
    Setting(
        "socket.receive.buffer.bytes",
        number(-1),
        102400,
        "The system's buffer for requests not received yet, for each connection. -1: the system's default.",
    ),
    Setting(
        "connections.max.idle.ms", MILLISECONDS, 600000, "Connections idle for longer are closed.", counts_at_once=True
    ),
    Setting(
        "max.connections",
        number(1),
        2000,
        "Most connections, on all listeners together; fewer where the limit of open files leaves no room for them. "
        "Beyond it a newcomer on the inter-broker listener displaces the client that has been idle for longest, and "
        "one on another listener is refused. listener.name.<name>.max.connections sets a limit for one listener. "
        "Kafka has no limit by default.",
        counts_at_once=True,
    ),
    Setting("max.connections.per.ip", number(0), 2**31 - 1, "Most connections from one address.", counts_at_once=True),
    Setting(
        "max.connections.per.ip.overrides",
        COUNTS,
        None,
        "Limits for some addresses or host names, instead of max.connections.per.ip.",
        counts_at_once=True,
    ),
    Setting(
        "max.connection.creation.rate",
        number(1),
        2**31 - 1,
        "Most new connections in a second on each listener but the inter-broker one; others wait to be accepted.",
        counts_at_once=True,
    ),
    Setting(
        "unclean.leader.election.enable",
        TRUTH,
        False,
        "Whether an out-of-sync replica may become leader when no in-sync replica can, losing records. The "
        "cluster-wide dynamic default (`kafka-configs --entity-default`) overrides it, and a topic's own setting "
        "overrides both.",
        protecting=min,
        counts_at_once=True,
    ),
    Setting(
        "authorizer.class.name",
        AUTHORIZER,
        None,
        "Set it as on the brokers: rights are then decided as the brokers decide them, by the same ACLs. "
        "Without it every client may do everything.",
    ),
    Setting(
        "super.users",
        PRINCIPALS,
        None,
        "Who may do everything, as on the brokers; the brokers' own principal must be among them, or have the right "
        "ClusterAction.",
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        TRUTH,
        False,
        "Whether every client may do what no ACL covers; as on the brokers.",
    ),
    Setting(
        "delete.topic.enable",
        TRUTH,
        True,
        "Whether topics may be deleted. If not, requests in /admin/delete_topics are removed.",
        protecting=min,
    ),
    Setting(
        "num.partitions",
        number(1),
        1,
        "Partitions of a topic that is created without a partition count.",
        protecting=min,  # a topic can get more partitions, but never fewer
        counts_at_once=True,
    ),
    Setting(
        "default.replication.factor",
        number(1, 32767),
        1,
        "Replicas of each partition of a topic that is created without a replication factor.",
        protecting=max,
        counts_at_once=True,
    ),
    Setting(
        "min.insync.replicas",
        number(1),
        1,
        "What topics without a setting of their own ask for; matters where moves wait for it. The cluster-wide dynamic "
        "default overrides it.",
        protecting=max,
        counts_at_once=True,
    ),
    ours(
        "create.topic.policy.ignore",
        TRUTH,
        False,
        "Whether topics are created unchecked if a broker has a create.topic.policy.class.name: a Java class cannot "
        "run here. If not, CreateTopics is answered POLICY_VIOLATION, except for __consumer_offsets and "
        "__transaction_state.",
        counts_at_once=True,
    ),
    Setting(
        "controller.quota.window.num",
        number(1),
        11,
        "How many windows of a quota on changes of topics (controller_mutation_rate) may be used at once.",
        protecting=min,
        counts_at_once=True,
    ),
    Setting(
        "controller.quota.window.size.seconds",
        number(1),
        1,
        "How long each of these windows is.",
        protecting=min,
        counts_at_once=True,
    ),
    Setting(
        "auto.leader.rebalance.enable",
        TRUTH,
        True,
        "Whether leadership returns to partitions' preferred (first) replicas automatically.",
        protecting=min,
        counts_at_once=True,
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        number(1),
        300,
        "How often the balance of leaders is checked; first five seconds after a take-over.",
        protecting=max,
        counts_at_once=True,
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        number(0),
        10,
        "The share of the partitions preferring a broker that others may lead before leadership returns to it.",
        protecting=max,
        counts_at_once=True,
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms",
        MILLISECONDS,
        3600000,
        "How often expired delegation tokens are deleted; the brokers' secret key is not needed here.",
        protecting=min,
        counts_at_once=True,
    ),
    ours(
        "controlled.shutdown.redundancy",
        number(0),
        0,
        "How many other in-sync replicas each partition of a broker must keep for its controlled shutdown to be "
        "granted; otherwise it is refused, naming the partitions, and the broker retries. Partitions with too few "
        "other replicas to begin with do not count. 0: no check, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.deletion.patience.ms",
        MILLISECONDS,
        10000,
        "How long an otherwise finished move waits for brokers to confirm that removed replicas are deleted. "
        "Unconfirmed deletions are recorded in ZooKeeper and retried.",
        counts_at_once=True,
    ),
    *MOVES,
    ours(
        "reassign.partitions.status.min.retention.ms",
        MILLISECONDS,
        86400000,
        "How long the status of a finished request is kept in /admin/reassign_partitions_status (KIP-179).",
        counts_at_once=True,
    ),
    ours(
        "reassignment.records.enable",
        TRUTH,
        True,
        "Whether former replicas and the client of each request are kept with its status, in "
        "/kafka_zk_controller/move_records, so that `kafka-zk-controller rollback` can undo it.",
    ),
    ours(
        "controller.reassignments.znodes",
        TRUTH,
        False,
        "Whether the children of /admin/reassignments start, change and cancel moves, and show all moves in progress "
        "(KIP-236). Set the same value on all replicas of the controller.",
    ),
    ours("http.host", TEXT, HTTP_HOST, "Address that serves /metrics, /livez, /readyz, /leader and /reassignments."),
    ours(
        "http.allowed.hosts",
        TEXT,
        None,
        "Host names accepted by the HTTP server, separated by commas, besides its addresses, the machine's own "
        "names and all names without a dot. * allows every name, also that of a hostile page (DNS rebinding).",
    ),
    ours("http.port", PORT, HTTP_PORT, "Port of the HTTP server; 0 turns it off."),
    ours(
        "http.web.config.file",
        TEXT,
        None,
        "TLS and users of the HTTP server, in the format of Prometheus' exporters; see docs/security.md. Required "
        "if http.host is reachable from other hosts.",
    ),
    ours(
        "http.open",
        TRUTH,
        False,
        "Lets every client read the HTTP server, although it is reachable from other hosts.",
    ),
    ours(
        "log.level",
        choice("debug", "info", "warning", "error"),
        "info",
        "Least severe level that is logged.",
        counts_at_once=True,
    ),
    ours(
        "log.authorizer.level",
        choice("debug", "info", "off"),
        "info",
        "Least severe level of kafka.authorizer.logger, whatever log.level is: info shows what was denied to whom, and "
        "why; debug also what was allowed.",
        counts_at_once=True,
    ),
    ours(
        "log.authorizer.file",
        TEXT,
        None,
        "File to which kafka.authorizer.logger appends; without it these lines are among the others.",
    ),
    ours(
        "log.moves.file",
        TEXT,
        None,
        "File to which a JSON object a line is appended for each request that moves partitions, and each move that has "
        "ended: who, when, why, before, after, outcome, bytes, seconds by stage. Off unless set.",
    ),
    ours(
        "log.format",
        choice("auto", "text", "json"),
        "auto",
        "text for people, json for machines; auto is text on a terminal and json elsewhere.",
    ),
    ours(
        "journal.dir",
        TEXT,
        None,
        "Directory of the journal, which records every turn so that an incident can be replayed. Off unless set.",
    ),
)
