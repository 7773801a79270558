"""Which traps does ZooKeeper show?

Source: Kafka's KRaftMigrationDriver, ZkMigrationClient, ZkTopicMigrationClient, ZkConfigMigrationClient (3.4 to 3.9);
KAFKA-16120, KAFKA-19480, KAFKA-20488, KAFKA-20960.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.core.candidacy.migrating import MigrationPhase
from controller.migration.findings import Finding, Trap, counted, ok, stop, warning
from controller.migration.sightings import Seen
from controller.preflight.findings import listed, named, not_registered
from controller.wire.versions import InterBrokerProtocol
from zk_layout.codec import Malformed
from zk_layout.znodes.brokers import ROOT as BROKERS
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.migration import Migration, MigrationAddress
from zk_layout.znodes.producer_ids import ProducerIdBlock

_CONTROLLER, _EPOCH, _MIGRATION = ControllerAddress().path, ControllerEpochAddress().path, MigrationAddress().path
_INTERNAL = "__cluster_metadata"
_BLOCK = 'write a block above every id that was given: {"version":1,"broker":-1,"block_start":…,"block_end":…}'
_SCRAM_SINCE, _TOKENS_SINCE = InterBrokerProtocol(3, 5, 2), InterBrokerProtocol(3, 6, 2)
_DELETE = (
    f"while no KRaft controller runs, keep what `get {_MIGRATION}` shows and `delete {_MIGRATION}` (zookeeper-shell)"
)


def phase(seen: Seen) -> Iterator[Finding]:
    """Where the cluster stands."""
    texts = {
        MigrationPhase.NONE: "no KRaft controller has been here",
        MigrationPhase.WAITING: "a KRaft quorum has started, and waits until all brokers have joined it",
        MigrationPhase.COPYING: "a KRaft controller leads, and has not copied everything yet",
        MigrationPhase.DUAL_WRITE: "a KRaft controller leads, and writes to ZooKeeper what it decides (dual write); "
        "a migration that was finalized looks the same",
        MigrationPhase.LEFT_OVER: "no KRaft controller leads, and a former migration has left its progress behind",
        MigrationPhase.UNREADABLE: "no KRaft controller could begin",
    }
    yield ok(Trap.PHASE, f"{seen.phase}: {texts[seen.phase]}", _who_leads(seen))


def migration_znode(seen: Seen) -> Iterator[Finding]:
    """An empty one stops a quorum for ever; a stale one makes it take its own log for newer than ZooKeeper."""
    check, progress = Trap.MIGRATION_ZNODE, seen.progress
    match progress:
        case None:
            yield ok(check, "there is none", _MIGRATION)
        case Malformed(reason, size_bytes):
            text = f"{size_bytes} bytes that no KRaft controller can read ({reason}): the quorum would wait for ever"
            hint = f"zookeeper-security-migration creates it empty (KAFKA-19480): {_DELETE}"
            yield stop(check, text, _MIGRATION, hint)
        case Migration() if seen.phase is MigrationPhase.LEFT_OVER:
            text = (
                f"KRaft controller {progress.kraft_controller_id} does not lead, and left offset "
                f"{progress.kraft_metadata_offset} behind: the next quorum would not copy from ZooKeeper, but write "
                "there what its own log holds, and delete every topic that it does not know"
            )
            yield stop(check, text, _MIGRATION, _DELETE)
        case _:
            yield ok(check, f"written last by KRaft controller {progress.kraft_controller_id}", _MIGRATION)


def own_replicas(seen: Seen) -> Iterator[Finding]:
    """KRaft takes them for brokers that will join it."""
    check = Trap.OWN_REPLICAS
    if not seen.replicas:
        yield ok(check, "no replica of this controller is registered", BROKERS)
        return
    text = (
        f"{counted(len(seen.replicas), 'replica')} of this controller registered as brokers ({listed(seen.replicas)})"
    )
    if seen.phase is MigrationPhase.WAITING and seen.migrates_everywhere:
        text += ': KRaft waits for them ("Still waiting for ZK brokers"), though every broker is ready'
        hint = "a leader makes way within seconds; if it does not, hand the cluster back: kafka-zk-controller release"
        yield stop(check, text, BROKERS, hint)
    else:
        hint = (
            "a leader makes way once every broker has the setting, if it may describe brokers' configs; else `release`"
        )
        yield warning(check, f"{text}: KRaft will wait for them", BROKERS, hint)


def brokers(seen: Seen) -> Iterator[Finding]:
    """KRaft waits for every broker that is registered or hosts a replica."""
    check = Trap.BROKERS
    if not seen.brokers:
        if not seen.phase.is_led_by_kraft:
            yield stop(check, "no broker is registered", BROKERS, "start the brokers")
        return
    if seen.away:
        replicas = sum(seen.partitions.hosts[broker] for broker in seen.away)
        text = f"{not_registered(seen.away)}, and {counted(replicas, 'replica')} assigned there: "
        text += "KRaft would wait for them for ever"
        yield stop(check, text, BROKERS, "start them, or move their replicas to other brokers")
        return
    yield ok(check, f"{named(seen.brokers)} registered", BROKERS)


def moves(seen: Seen) -> Iterator[Finding]:
    """A move that is under way leaves logs behind on some releases, and is hard to tell from a fault."""
    check, moving = Trap.MOVES, seen.partitions.moving
    hint = "wait until they are done, or cancel them (kafka-zk-controller reassign --list, --cancel)"
    if moving:
        text = f"{counted(len(moving), 'partition')} being moved: {listed(moving)}"
        yield stop(check, text, "/brokers/topics", f"{hint}; up to 3.6.1 KRaft left their logs behind (KAFKA-16120)")
    if seen.state.legacy.is_present:
        yield stop(check, "moves are requested that have not begun", seen.state.legacy.address.path, hint)
    if waiting := [f"{t}-{n}" for t, some in sorted(seen.state.reassignments.children.items()) for n in sorted(some)]:
        text = f"{counted(len(waiting), 'move')} requested by znodes, which KRaft ignores: {listed(waiting)}"
        yield stop(check, text, "/admin/reassignments", hint)
    if not (moving or waiting or seen.state.legacy.is_present):
        yield ok(check, "nothing moves")


def deletions(seen: Seen) -> Iterator[Finding]:
    """Topics that wait for their deletion are not copied."""
    check, names = Trap.DELETIONS, sorted(seen.state.topics.marks)
    if names:
        text = f"{counted(len(names), 'topic')} waiting to be deleted: {listed(names)}"
        hint = (
            "wait until they are gone: KRaft does not copy them, releases before 3.6 copy them as if they were wanted"
        )
        yield warning(check, text, "/admin/delete_topics", hint)
    else:
        yield ok(check, "no topic waits to be deleted")


def topics(seen: Seen) -> Iterator[Finding]:
    """One topic that KRaft cannot read ends the copying of all, and the KRaft controller with it."""
    check, views = Trap.TOPICS, seen.state.topics.views
    wanted = [view for view in views.values() if not view.is_queued_for_deletion]
    malformed = sorted(view.name for view in wanted if view.is_malformed)
    without_id = sorted(v.name for v in wanted if not v.is_malformed and (v.topic_id is None or v.has_lost_id))
    yield from _unreadable(seen, malformed)
    if without_id:
        text = f"{counted(len(without_id), 'topic')} without an id, which end the copying: {listed(without_id)}"
        hint = "the next controller gives them ids, with inter.broker.protocol.version 2.8 or later: let another lead"
        yield stop(check, text, "/brokers/topics", hint)
    if _INTERNAL in views:
        text = f"topic {_INTERNAL} has the name of KRaft's own log"
        yield stop(check, text, f"/brokers/topics/{_INTERNAL}", "delete it, or copy it to another name")
    if some := seen.partitions.without_state:
        text = f"{counted(len(some), 'partition')} without a state, all in sync for KRaft: {listed(some)}"
        yield stop(check, text, "/brokers/topics", "start a broker that hosts them, so that they get a leader")
    if not (malformed or without_id or _INTERNAL in views or some or _odd_paths(seen)):
        text = f"{counted(len(wanted), 'topic')} with {counted(seen.partitions.count, 'partition')} can be copied"
        yield ok(check, text)


def _odd_paths(seen: Seen) -> dict[str, str]:
    found = {**seen.state.unreadable.malformed, **seen.state.unreadable.refusals, **seen.unreadable}
    return {path: reason for path, reason in found.items() if path != seen.state.producer_ids.address.path}


def _unreadable(seen: Seen, malformed: Sequence[str]) -> Iterator[Finding]:
    paths = _odd_paths(seen)
    if not paths and not malformed:
        return
    first = next(iter(sorted(paths)), f"/brokers/topics/{malformed[0]}" if malformed else "")
    text = f"{counted(max(len(paths), len(malformed)), 'znode')} that cannot be read, first {first}"
    text += f" ({paths[first]})" if first in paths else ""
    yield stop(
        Trap.TOPICS, f"{text}: the copying would break off there", first, "repair or delete it, then check again"
    )


def partitions(seen: Seen) -> Iterator[Finding]:
    """Not in the way; but what was broken before is not the migration's fault afterwards."""
    check, found = Trap.PARTITIONS, seen.partitions
    hint = "repair them first: a rolling restart takes replicas away one by one"
    if found.without_leader:
        text = f"{counted(len(found.without_leader), 'partition')} without a leader: {listed(found.without_leader)}"
        yield warning(check, text, "/brokers/topics", hint)
    if found.under_replicated:
        text = f"{counted(len(found.under_replicated), 'partition')} under-replicated: {listed(found.under_replicated)}"
        yield warning(check, text, "/brokers/topics", hint)
    if not (found.without_leader or found.under_replicated):
        yield ok(check, "every partition has a leader, and every replica is in sync")


def epochs(seen: Seen) -> Iterator[Finding]:
    """After a roll-back a native controller elects only where its epoch is the highest (KAFKA-20488)."""
    check, written = Trap.EPOCHS, seen.state.writer_epochs
    hint = "let a replica of this controller lead before a native one: it claims above the highest"
    if seen.epoch is None:
        yield stop(check, "there is no readable controller epoch: no KRaft controller could lead", _EPOCH, "repair it")
        return
    kraft = seen.holder.kraft_epoch if isinstance(seen.holder, ControllerClaim) else None
    if kraft is not None and kraft > seen.epoch:
        text = f"KRaft writes epoch {kraft} into partitions' states, and {_EPOCH} is {seen.epoch}: after a roll-back "
        yield warning(check, f"{text}native controllers would elect no leaders there (KAFKA-20488)", _CONTROLLER, hint)
    elif written.highest > seen.epoch:
        text = f"a partition carries controller epoch {written.highest}, and {_EPOCH} is {seen.epoch}: "
        yield stop(check, f"{text}a native controller elects no leaders there (KAFKA-20488)", written.path, hint)
    else:
        yield ok(check, f"{seen.epoch}; no partition carries a higher one", _EPOCH)


def producer_ids(seen: Seen) -> Iterator[Finding]:
    """KRaft goes on after the last block; without one it begins at 0."""
    check, held = Trap.PRODUCER_IDS, seen.state.producer_ids
    path = held.address.path
    if isinstance(held.value, ProducerIdBlock):
        yield ok(check, f"KRaft goes on at {held.value.last + 1}", path)
    elif isinstance(held.value, Malformed):
        text = f"{held.value.reason}: the copying would break off there"
        yield stop(check, text, path, _BLOCK)
    elif "__transaction_state" in seen.state.topics.views:
        text = "there is no block, and __transaction_state exists: KRaft would give ids from 0 on a second time"
        yield stop(check, text, path, _BLOCK)
    else:
        yield ok(check, "no id was ever given: KRaft begins at 0", path)


def users(seen: Seen) -> Iterator[Finding]:
    """Older metadata versions have no place for them."""
    check, oldest = Trap.USERS, seen.oldest_protocol
    if seen.users and oldest is not None and oldest < _SCRAM_SINCE:
        text = (
            f"{counted(len(seen.users), 'SCRAM user')}, for which KRaft has no place before 3.5: they could not log in"
        )
        yield stop(check, text, "/config/users", "raise inter.broker.protocol.version, and use Kafka 3.9 for KRaft")
    elif seen.users:
        yield ok(check, f"{counted(len(seen.users), 'SCRAM user')} can be copied", "/config/users")
    if seen.tokens and oldest is not None and oldest < _TOKENS_SINCE:
        text = f"{counted(len(seen.tokens), 'delegation token')}, for which KRaft has no place before 3.6"
        yield stop(check, text, "/delegation_token/tokens", "raise inter.broker.protocol.version to 3.9")
    elif seen.tokens:
        text = f"{counted(len(seen.tokens), 'delegation token')} valid only where every node has the same secret"
        hint = "give the KRaft controllers the brokers' delegation.token.secret.key"
        yield warning(check, text, "/delegation_token/tokens", hint)
    if not (seen.users or seen.tokens):
        yield ok(check, "there are no SCRAM users and no delegation tokens")


def finalizing(seen: Seen) -> Iterator[Finding]:
    """Afterwards nothing can be rolled back, and a broker in ZooKeeper mode belongs to no cluster."""
    check = Trap.FINALIZING
    if seen.phase is not MigrationPhase.DUAL_WRITE:
        yield ok(
            check, "not yet: check again before zookeeper.metadata.migration.enable goes from the KRaft controllers"
        )
    elif seen.brokers or seen.replicas:
        some = sorted((*seen.brokers, *seen.replicas))
        text = f"{named(some)} still registered in ZooKeeper: to finalize now would leave them behind (KAFKA-20960)"
        yield stop(check, text, BROKERS, "restart each broker in KRaft mode (process.roles=broker) first")
    else:
        yield ok(check, "no broker is registered in ZooKeeper any more", BROKERS)


def _who_leads(seen: Seen) -> str:
    match seen.holder:
        case None:
            return f"{_CONTROLLER} is vacant"
        case Malformed():
            return f"{_CONTROLLER} is unreadable"
        case ControllerClaim(broker=broker, is_ours=is_ours, kraft_epoch=epoch):
            kind = (
                f"KRaft controller, epoch {epoch}"
                if epoch is not None
                else "replica of this controller"
                if is_ours
                else "broker"
            )
            return f"{_CONTROLLER}: {broker} ({kind})"
