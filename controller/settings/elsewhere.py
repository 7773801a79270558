"""Which keys of a broker's server.properties are not ours, and how do we respond to them?

A broker's file can be the starting point. Most of its keys do not concern a controller. Some ask for what this
controller cannot do, and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "create.topic.policy.class.name": "a Java class cannot run here; remove it: if the brokers have one, "
        "CreateTopics is refused unless create.topic.policy.ignore is true",
        "zookeeper.ssl.crl.enable": "this process cannot look up certificates of ZooKeeper's servers in lists "
        "of revoked ones; remove it, if brokers work without it",
        "zookeeper.ssl.ocsp.enable": "this process cannot ask whether a certificate of ZooKeeper's servers was "
        "revoked; remove it, if brokers work without it",
        "zookeeper.metadata.migration.enable": "this is for brokers and KRaft controllers, for whom this controller "
        "makes way by itself; remove it here, or set it to false",
        "process.roles": "this file configures KRaft; this controller is for clusters in ZooKeeper mode",
        "controller.quorum.voters": "this file configures KRaft; this controller is for clusters in ZooKeeper mode",
        "node.id": "name this replica's id in broker.id; beside it, node.id may only repeat it",
    }
)
"""Refused unless empty or false, or a node.id that repeats broker.id: key → what to do instead."""

IRRELEVANT = frozenset(
    [
        "advertised.host.name",
        "advertised.port",
        "alter.config.policy.class.name",
        "auto.create.topics.enable",
        "auto.include.jmx.reporter",
        "background.threads",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "compression.type",
        "controlled.shutdown.enable",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "delegation.token.expiry.time.ms",
        "delete.records.purgatory.purge.interval.requests",
        "early.start.listeners",
        "fetch.max.bytes",
        "fetch.purgatory.purge.interval.requests",
        "host.name",
        "initial.broker.registration.timeout.ms",
        "kafka.metrics.polling.interval.secs",
        "kafka.metrics.reporters",
        "max.incremental.fetch.session.cache.slots",
        "message.max.bytes",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "num.replica.fetchers",
        "port",
        "producer.id.expiration.check.interval.ms",
        "producer.id.expiration.ms",
        "producer.purgatory.purge.interval.requests",
        "queued.max.requests",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "socket.listen.backlog.size",
        "telemetry.max.bytes",
        "unstable.api.versions.enable",
        "unstable.metadata.versions.enable",
        "zookeeper.clientCnxnSocket",
        "zookeeper.sync.time.ms",
    ]
)
"""Keys of brokers that do not concern a controller."""

IRRELEVANT_PREFIXES = (
    "alter.log.dirs.",
    "client.quota.",
    "confluent.",
    "delegation.token.master.",
    "delegation.token.max.",
    "delegation.token.secret.",
    "eligible.leader.",
    "group.",
    "listener.name.",
    "log.cleaner.",
    "log.cleanup.",
    "log.deletion.",
    "log.dir",
    "log.flush.",
    "log.index.",
    "log.initial.",
    "log.local.",
    "log.message.",
    "log.preallocate",
    "log.retention.",
    "log.roll.",
    "log.segment.",
    "metadata.",
    "metric.",
    "metrics.",
    "offset.metadata.",
    "offsets.",
    "password.encoder.",
    "quota.",
    "remote.",
    "replica.",
    "replication.",
    "sasl.",
    "ssl.",
    "transaction.",
    "transactional.",
)
"""All keys with these prefixes are equally irrelevant."""
