"""Which traps do the brokers' settings and directories show?

Source: Kafka's KafkaConfig (validateValues), KafkaServer and MetadataVersion (3.4 to 3.9); KAFKA-16431, KAFKA-17788;
the section on migration of Kafka's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.migration.findings import (
    Finding,
    Result,
    Trap,
    counted,
    ok,
    stop,
    unknown,
    warning,
)
from controller.migration.sightings import Seen
from controller.preflight.findings import listed, named, not_registered
from controller.preflight.leaving import ENABLED
from controller.wire.versions import InterBrokerProtocol, parse_protocol
from zk_layout.ids import BrokerId
from zk_layout.znodes import configs
from zk_layout.znodes.replicas import ROOT as REPLICAS

PROTOCOL = "inter.broker.protocol.version"
VOTERS, SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
BROKER_ID, HIGHEST_SET, GENERATES = "broker.id", "reserved.broker.max.id", "broker.id.generation.enable"
CONTROL_PLANE = "control.plane.listener.name"
AUTHORIZER = "authorizer.class.name"
FORMAT, TOPIC_FORMAT = "log.message.format.version", "message.format.version"
KEYS = (PROTOCOL, ENABLED, VOTERS, SERVERS, BROKER_ID, HIGHEST_SET, GENERATES, CONTROL_PLANE, AUTHORIZER, FORMAT)

_MIGRATES_SINCE, _WHOLE_SINCE = InterBrokerProtocol(3, 4, 0), InterBrokerProtocol(3, 6, 1)
_DIRECTORIES_SINCE, _NEWEST = InterBrokerProtocol(3, 7, 2), InterBrokerProtocol(3, 9, 0)
_OF_ZOOKEEPER, _OF_KRAFT = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
_SECRET = ("password", "secret", "jaas.config", "keystore.key", "certificate.chain", "truststore.certificates")


def unanswered(seen: Seen) -> Iterator[Finding]:
    """What a broker does not say is not known."""
    silent = {broker: answer.failure for broker, answer in sorted(seen.answers.items()) if answer.failure}
    for broker, failure in silent.items():
        text = f"its settings are not known, and not checked: {failure}"
        hint = "give this command a replica's file (--config) with a user that may describe brokers' configs"
        yield unknown(Trap.BROKERS, text, named([broker]), hint)


def protocol(seen: Seen) -> Iterator[Finding]:
    """All brokers need the same, and a migration one of 3.4 at least."""
    check, found = Trap.PROTOCOL, seen.settings(PROTOCOL)
    if not found:
        yield _not_reported(check, PROTOCOL)
        return
    oldest = seen.oldest_protocol
    hint = f"upgrade every broker to the last release of Kafka 3.9, then set {PROTOCOL}=3.9 on all"
    if len(found) > 1:
        values = "; ".join(f"{value} on {named(some)}" for value, some in found.items())
        yield stop(check, f"{PROTOCOL} is {values}: KRaft begins only where all have the same", "brokers", hint)
    if oldest is None or oldest < _MIGRATES_SINCE:
        yield stop(check, f"{PROTOCOL} is {listed(list(found))}: no broker with it can migrate", "brokers", hint)
    elif oldest < _WHOLE_SINCE:
        text = (
            f"{PROTOCOL} is {oldest}: without metadata transactions (3.6) KRaft does not begin, or leaves a half behind"
        )
        yield stop(check, text, "brokers", hint)
    elif oldest < _NEWEST:
        text = f"{PROTOCOL} is {oldest}: migrations are best tested with 3.9, and cannot change it on the way"
        yield warning(check, text, "brokers", hint)
    elif len(found) == 1:
        yield ok(check, f"{PROTOCOL} is {oldest} on all", "brokers")
    text = "which release of Kafka brokers and KRaft controllers run is not reported"
    hint = (
        "use 3.9.1 or later for both: others give producer ids twice (KAFKA-15552), or leave logs behind (KAFKA-16120)"
    )
    yield unknown(check, text, "brokers", hint)


def settings(seen: Seen) -> Iterator[Finding]:
    """Whether the brokers enter the migration, all in the same way."""
    check, found = Trap.SETTINGS, seen.settings(ENABLED)
    enabled = sorted(seen.migrating)
    if not found:
        yield _not_reported(check, ENABLED)
    elif not enabled:
        yield ok(check, f"no broker has {ENABLED} yet", "brokers")
    elif not seen.migrates_everywhere:
        others = sorted(set(seen.brokers) - set(enabled))
        text = f"{ENABLED} is true on {named(enabled)}"
        text += f" and not on {named(others)}" if others else ""
        text += f"; {not_registered(seen.away)}" if seen.away else ""
        hint = "go on with the rolling restart, or take it back everywhere: the migration begins with the last broker"
        yield warning(check, text, "brokers", hint)
    else:
        yield ok(check, f"{ENABLED} is true on all: the migration begins when a quorum is ready", "brokers")
    for key in (VOTERS, SERVERS):
        values = {value: some for value, some in seen.settings(key).items() if value}
        if len(values) > 1:
            text = "; ".join(f"{value} on {named(some)}" for value, some in values.items())
            yield stop(check, f"{key} is {text}: they would join different quorums", "brokers", "set it alike on all")


def node_ids(seen: Seen) -> Iterator[Finding]:
    """Brokers and KRaft controllers share one space of ids."""
    check = Trap.NODE_IDS
    quorum = set(seen.quorum) | {n for voters in seen.settings(VOTERS) for n in voter_ids(voters)}
    if not quorum:
        text = f"the ids of the KRaft controllers are not known: no broker has {VOTERS}"
        yield unknown(check, text, "brokers", "name them with --quorum-ids, and give them ids that no broker has")
        return
    taken = {BrokerId(n): "a broker" for n in (*seen.partitions.hosts, *seen.brokers)}
    taken |= dict.fromkeys({*seen.replicas, *(seen.running or ())}, "a replica of this controller")
    if clashes := sorted(quorum & taken.keys()):
        text = "; ".join(f"{n} is the id of {taken[BrokerId(n)]}" for n in clashes)
        yield stop(
            check, f"KRaft controllers have ids that are taken: {text}", "node.id", "give the quorum ids of its own"
        )
    elif seen.running is None:
        text = "ZooKeeper does not show which replicas of this controller stand by: their ids may be the quorum's"
        yield unknown(check, text, REPLICAS, "compare them with broker.id in the replicas' files")
    else:
        yield ok(check, f"KRaft controllers {listed(sorted(quorum))} have ids of their own")


def voter_ids(voters: str) -> list[int]:
    """The ids in `controller.quorum.voters`.

    >>> voter_ids("3000@k1:9093, 3001@k2:9093"), voter_ids("")
    ([3000, 3001], [])
    """
    heads = (voter.strip().partition("@")[0] for voter in voters.split(","))
    return [int(head) for head in heads if head.isdigit()]


def reserved_ids(seen: Seen) -> Iterator[Finding]:
    """A generated id has to be written into the file, where a broker refuses one above the reserved ones."""
    check, generated, above = Trap.RESERVED_IDS, [], []
    known = [
        (broker, answer.settings) for broker, answer in sorted(seen.answers.items()) if BROKER_ID in answer.settings
    ]
    for broker, held in known:
        if held[BROKER_ID].startswith("-"):
            generated.append(broker)
        is_checked = held.get(GENERATES, "true").lower() == "true"
        if is_checked and broker > int(held.get(HIGHEST_SET, "1000")):
            above.append(broker)
    if generated:
        text = f"{named(generated)} with a generated id: a broker that migrates needs {BROKER_ID} in its file"
        yield stop(check, text, BROKER_ID, f"write {BROKER_ID} as in meta.properties")
    if above:
        text = f"{named(above)} above {HIGHEST_SET}: with {BROKER_ID} in the file they would not start"
        yield stop(
            check, text, HIGHEST_SET, f"set {HIGHEST_SET} at least as high, or {GENERATES}=false, on these brokers"
        )
    if not known:
        yield _not_reported(check, BROKER_ID)
    elif not (generated or above):
        yield ok(check, f"every broker has a {BROKER_ID} that it may keep", "brokers")


def control_plane(seen: Seen) -> Iterator[Finding]:
    """KRaft knows no such listener."""
    check, found = Trap.CONTROL_PLANE, seen.settings(CONTROL_PLANE)
    used = sorted(b for value, some in found.items() if value for b in some)
    if used:
        text = f"{named(used)} with {CONTROL_PLANE}: in KRaft mode they do not start; before 3.9 a migrating broker "
        hint = f"use Kafka 3.9, and take {CONTROL_PLANE} from the file when a broker restarts in KRaft mode"
        yield warning(check, f"{text}is not reached over it (KAFKA-17788)", "brokers", hint)
    elif _has_answered(seen):
        yield ok(check, f"no broker has {CONTROL_PLANE}", "brokers")
    else:
        yield _not_reported(check, CONTROL_PLANE)


def authorizer(seen: Seen) -> Iterator[Finding]:
    """An authorizer of ZooKeeper mode has to be replaced, by one with the same rights."""
    check, found = Trap.AUTHORIZER, seen.settings(AUTHORIZER)
    classes = {value: some for value, some in found.items() if value}
    if not _has_answered(seen):
        yield _not_reported(check, AUTHORIZER)
    elif not classes:
        yield ok(check, "no broker has an authorizer", "brokers")
    elif list(classes) == [_OF_ZOOKEEPER]:
        hint = f"set {_OF_KRAFT} on the KRaft controllers, and on each broker when it restarts in KRaft mode"
        yield warning(check, f"{_OF_ZOOKEEPER} reads ZooKeeper, and does not start in KRaft mode", "brokers", hint)
    else:
        text = "; ".join(f"{value} on {named(some)}" for value, some in classes.items())
        hint = "ask its makers whether it knows KRaft; have the same one on all brokers and on the KRaft controllers"
        yield stop(check, f"{AUTHORIZER} is {text}", "brokers", hint)


def message_format(seen: Seen) -> Iterator[Finding]:
    """Kafka 4 writes the format of 0.11 only."""
    check, found = Trap.MESSAGE_FORMAT, False
    for value, some in seen.settings(FORMAT).items():
        if _is_old(value):
            found = True
            text = f"{named(some)} with {FORMAT}={value}, which KRaft and Kafka 4 ignore"
            yield warning(check, text, FORMAT, "remove it; clients that need it do not understand Kafka 4")
    if topics := sorted(n for n, held in seen.topic_configs.items() if _is_old(held.config.get(TOPIC_FORMAT, ""))):
        found = True
        text = f"{counted(len(topics), 'topic')} with {TOPIC_FORMAT}, which Kafka 4 does not know: {listed(topics)}"
        yield warning(check, text, "/config/topics", f"remove it: kafka-configs --alter --delete-config {TOPIC_FORMAT}")
    if not found:
        text = "no setting asks for an older message format; which one old segments have is not seen"
        yield unknown(
            check, text, "log directories", "kafka-dump-log shows it as `magic`; Kafka 4 still reads the old ones"
        )


def log_directories(seen: Seen) -> Iterator[Finding]:
    """While a cluster migrates, one failed directory shuts its broker down (KAFKA-16431)."""
    check, is_fine = Trap.LOG_DIRECTORIES, True
    for broker, answer in sorted(seen.answers.items()):
        if answer.directories is None:
            continue
        where = named([broker])
        if failed := sorted(path for path, error in answer.directories.items() if error):
            is_fine = False
            text = f"offline: {listed(failed)}; a broker that migrates does not start with it (KAFKA-16431)"
            yield stop(check, text, where, "repair the directory, or take it out of log.dirs")
        if len(answer.directories) > 1 and answer.protocol is not None and answer.protocol < _DIRECTORIES_SINCE:
            is_fine = False
            text = f"{len(answer.directories)} log directories, which need {PROTOCOL} 3.7-IV2 to migrate"
            yield stop(check, text, where, f"raise {PROTOCOL} to 3.9 on all brokers")
    silent = sorted(broker for broker in seen.brokers if _directories(seen, broker) is None)
    if silent:
        yield unknown(check, "log directories are not reported", named(silent), "look for offline ones in their logs")
    elif is_fine and seen.brokers:
        yield ok(check, "all log directories are online", "brokers")


def encrypted(seen: Seen) -> Iterator[Finding]:
    """KRaft controllers have to decrypt what brokers have encrypted in ZooKeeper."""
    check = Trap.ENCRYPTED
    if secret := sorted(n for n, held in seen.broker_configs.items() if any(map(_is_secret, held.config))):
        text = f"passwords set at run time for {listed(secret)}, encrypted with the brokers' password.encoder.secret"
        hint = "give the KRaft controllers the same password.encoder.secret, or the copying breaks off"
        yield warning(check, text, configs.BROKERS, hint)
    else:
        yield ok(check, "no password was set at run time", configs.BROKERS)


def clients(_: Seen) -> Iterator[Finding]:
    """Brokers do not tell which clients use them."""
    text = "which clients are too old for Kafka 4 cannot be seen from here"
    hint = "Kafka 4 refuses clients from before 2.1: brokers from 3.7 on count them (DeprecatedRequestsPerSec)"
    yield unknown(Trap.CLIENTS, text, "clients", hint)


def _directories(seen: Seen, broker: BrokerId) -> object:
    answer = seen.answers.get(broker)
    return None if answer is None else answer.directories


def _is_secret(key: str) -> bool:
    return any(word in key for word in _SECRET)


def _is_old(value: str) -> bool:
    """Whether this names a message format, or a release that had one, from before 3.0."""
    try:
        return bool(value) and parse_protocol(value) < InterBrokerProtocol(3, 0, 1)
    except ValueError:
        return value.startswith(("0.", "1.", "2."))


def _has_answered(seen: Seen) -> bool:
    return any(PROTOCOL in answer.settings for answer in seen.answers.values())


def _not_reported(check: Trap, key: str) -> Finding:
    return Finding(check, Result.UNKNOWN, f"no broker reports {key}", "brokers", f"look at {key} in the brokers' files")
