"""Which settings say how ZooKeeper is reached, and as whom?"""

from __future__ import annotations

from controller.settings import kinds
from controller.settings.setting import Setting, ours

ZOOKEEPER: tuple[Setting, ...] = (
    Setting(
        "zookeeper.connect",
        kinds.SERVERS,
        None,
        "ZooKeeper's servers, and the chroot if the brokers use one. The same as on the brokers.",
        is_required=True,
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        kinds.number(1000),
        18000,
        "How long ZooKeeper waits before it expires the session of a silent process, so that a standby can take over.",
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        kinds.MILLISECONDS,
        None,
        "Time-out of one attempt to connect to ZooKeeper; attempts are repeated.",
        same_as="zookeeper.session.timeout.ms",
    ),
    Setting(
        "zookeeper.max.in.flight.requests",
        kinds.number(1, 10_000),
        64,
        "Most requests to ZooKeeper in flight at once. Kafka's default is 10; this one is higher because a fail-over "
        "is a long pipeline of reads and takes as long as its round trips.",
    ),
    Setting(
        "zookeeper.ssl.client.enable",
        kinds.TRUTH,
        False,
        "Whether to connect to ZooKeeper over TLS; zookeeper.connect then names secure ports.",
    ),
    Setting(
        "zookeeper.ssl.keystore.location",
        kinds.TEXT,
        None,
        "Our certificate for ZooKeeper, with its private key, where the servers want one. With zookeeper.set.acl and "
        "without SASL, its subject must be that of the brokers' certificate.",
    ),
    Setting(
        "zookeeper.ssl.keystore.password",
        kinds.SECRET,
        None,
        "Password of the key store, and of the private key in it.",
    ),
    Setting(
        "zookeeper.ssl.keystore.type",
        kinds.STORE_TYPE,
        None,
        "Format of the key store; without it the file's name tells: .jks, .p12, .pem.",
    ),
    Setting(
        "zookeeper.ssl.truststore.location",
        kinds.TEXT,
        None,
        "Who signs the certificates of ZooKeeper's servers; without it the system's authorities count.",
    ),
    Setting("zookeeper.ssl.truststore.password", kinds.SECRET, None, "Password of the trust store."),
    Setting(
        "zookeeper.ssl.truststore.type",
        kinds.STORE_TYPE,
        None,
        "Format of the trust store; without it the file's name tells: .jks, .p12, .pem.",
    ),
    Setting(
        "zookeeper.ssl.protocol",
        kinds.choice("TLSv1.2", "TLSv1.3", "TLS"),
        "TLSv1.2",
        "Version of TLS towards ZooKeeper; TLS is both.",
    ),
    Setting(
        "zookeeper.ssl.enabled.protocols",
        kinds.names("TLSv1.2", "TLSv1.3"),
        None,
        "Versions of TLS towards ZooKeeper, instead of zookeeper.ssl.protocol.",
    ),
    Setting(
        "zookeeper.ssl.cipher.suites",
        kinds.TEXT,
        None,
        "Cipher suites towards ZooKeeper by Java's names, separated by commas; the library's choice by default.",
    ),
    Setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        kinds.IDENTIFICATION,
        "https",
        "Whether the name or address in zookeeper.connect must be in the server's certificate; empty: no.",
    ),
    ours(
        "zookeeper.sasl.jaas.config",
        kinds.SECRET,
        None,
        "As whom to log in at ZooKeeper by SASL: what the section Client of the brokers' JAAS file has between its "
        "braces. org.apache.zookeeper.server.auth.DigestLoginModule is DIGEST-MD5, "
        "com.sun.security.auth.module.Krb5LoginModule is GSSAPI.",
    ),
    ours(
        "zookeeper.sasl.client.username",
        kinds.TEXT,
        "zookeeper",
        "First part of the Kerberos principal of ZooKeeper's servers, as Java's system property of this name.",
    ),
    ours(
        "zookeeper.digest.credentials",
        kinds.CREDENTIALS,
        None,
        "As whom ZooKeeper is to know this process by the scheme digest, where such an id has rights: user:password, "
        "as zkCli's addauth digest takes it. Brokers have no such id.",
    ),
    Setting(
        "zookeeper.set.acl",
        kinds.TRUTH,
        False,
        "Whether only the brokers and this controller may write what it creates in ZooKeeper; as on the brokers. Needs "
        "the identity that the brokers have there: zookeeper.sasl.jaas.config, or a key store.",
    ),
    ours(
        "jute.maxbuffer",
        kinds.number(65536),
        1048575,
        "Largest request, in bytes, that the ZooKeeper servers accept; at most their own jute.maxbuffer.",
    ),
)
