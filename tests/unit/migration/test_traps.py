"""Each trap of a migration to KRaft, planted in a cluster that is otherwise ready, is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core.candidacy.migrating import MigrationPhase
from controller.core.messages.errors import ErrorCode
from controller.migration.findings import Result, Trap
from controller.migration.judging import QUESTIONS, judge, worst
from tests.unit.migration.world import ORDERS, Broker, World, ready
from zk_layout.ids import BrokerId, PartitionId, TopicId, TopicName
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim
from zk_layout.znodes.migration import Migration, MigrationAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
MOVING = Topic(
    {PartitionId(0): Assignment((ONE, TWO, THREE), adding=(THREE,), removing=(ONE,))},
    TopicId("id-of-orders".ljust(22, "_")),
)
NEW = Topic({PartitionId(0): Assignment((ONE,))}, TopicId("n" * 22))
SCRAM = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=a,stored_key=b,server_key=c,iterations=4096"}}'
FAILED = {"/a": ErrorCode.NONE, "/b": ErrorCode.KAFKA_STORAGE_ERROR}
TWO_SOUND = {"/a": ErrorCode.NONE, "/b": ErrorCode.NONE}
LEGACY = b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3]}]}'

Plant = Callable[[World], object]

# fmt: off
TRAPS: dict[str, tuple[Plant, Trap, Result, str]] = {
    "protocol too old": (lambda w: w.all_have(protocol="3.3-IV3"), Trap.PROTOCOL, Result.STOP, "3.3-IV3"),
    "protocol without metadata transactions": (
        lambda w: w.all_have(protocol="3.5-IV2"), Trap.PROTOCOL, Result.STOP, "metadata transactions"),
    "protocols that differ": (
        lambda w: w.starts(3, Broker(protocol="3.8-IV0")), Trap.PROTOCOL, Result.STOP, "3.8-IV0 on broker 3"),
    "protocol before 3.9": (lambda w: w.all_have(protocol="3.8-IV0"), Trap.PROTOCOL, Result.WARNING, "3.8-IV0"),
    "some brokers are in the migration": (
        lambda w: w.starts(2, Broker(zookeeper_metadata_migration_enable="true")),
        Trap.SETTINGS, Result.WARNING, "not on brokers 1, 3"),
    "two quorums": (
        lambda w: w.starts(3, Broker(controller_quorum_voters="3001@k2:1")),
        Trap.SETTINGS, Result.STOP, "different quorums"),
    "a quorum with a broker's id": (
        lambda w: w.all_have(controller_quorum_voters="3@k1:9093"),
        Trap.NODE_IDS, Result.STOP, "3 is the id of a broker"),
    "a quorum with the id of a replica of ours": (
        lambda w: w.starts(901, Broker(), is_ours=True).all_have(controller_quorum_voters="901@k1:9093"),
        Trap.NODE_IDS, Result.STOP, "901 is the id of a replica of this controller"),
    "a quorum with the id of a replica that stands by": (
        lambda w: w.write("/kafka_zk_controller/replicas/902", b"{}").all_have(
            controller_quorum_voters="902@k1:9093"),
        Trap.NODE_IDS, Result.STOP, "902 is the id of a replica of this controller"),
    "an id above the reserved ones": (
        lambda w: w.starts(1001, Broker()),
        Trap.RESERVED_IDS, Result.STOP, "broker 1001 above reserved.broker.max.id"),
    "an id that was generated": (
        lambda w: w.starts(2, Broker(broker_id="-1")),
        Trap.RESERVED_IDS, Result.STOP, "broker 2 with a generated id"),
    "a control plane": (
        lambda w: w.all_have(control_plane_listener_name="CTRL"),
        Trap.CONTROL_PLANE, Result.WARNING, "brokers 1, 2, 3"),
    "Kafka's authorizer for ZooKeeper": (
        lambda w: w.all_have(authorizer_class_name="kafka.security.authorizer.AclAuthorizer"),
        Trap.AUTHORIZER, Result.WARNING, "does not start in KRaft mode"),
    "another authorizer": (
        lambda w: w.all_have(authorizer_class_name="org.example.Ranger"), Trap.AUTHORIZER, Result.STOP, "Ranger on"),
    "brokers with an older message format": (
        lambda w: w.all_have(log_message_format_version="2.0"), Trap.MESSAGE_FORMAT, Result.WARNING, "=2.0"),
    "a topic with an older message format": (
        lambda w: w.write("/config/topics/orders", b'{"version":1,"config":{"message.format.version":"0.10.2"}}'),
        Trap.MESSAGE_FORMAT, Result.WARNING, "orders"),
    "a failed directory": (
        lambda w: w.starts(2, Broker(directories=FAILED)), Trap.LOG_DIRECTORIES, Result.STOP, "offline: /b"),
    "directories before 3.7": (
        lambda w: w.starts(2, Broker(protocol="3.6-IV2", directories=TWO_SOUND)),
        Trap.LOG_DIRECTORIES, Result.STOP, "2 log directories"),
    "moves in progress": (lambda w: w.has(TopicAddress(ORDERS), MOVING), Trap.MOVES, Result.STOP, "orders-0"),
    "requested moves": (
        lambda w: w.write("/admin/reassign_partitions", LEGACY), Trap.MOVES, Result.STOP, "have not begun"),
    "moves requested by znodes": (
        lambda w: w.write("/admin/reassignments/orders-0", b'{"version":1,"replicas":[3]}'),
        Trap.MOVES, Result.STOP, "which KRaft ignores: orders-0"),
    "a broker with replicas is away": (
        lambda w: w.stops(3), Trap.BROKERS, Result.STOP, "broker 3 is not registered, and 1 replica assigned there"),
    "no broker is there": (lambda w: w.stops(1, 2, 3), Trap.BROKERS, Result.STOP, "no broker is registered"),
    "an empty /migration": (lambda w: w.write("/migration", b""), Trap.MIGRATION_ZNODE, Result.STOP, "0 bytes"),
    "a stale /migration": (
        lambda w: w.has(MigrationAddress(), Migration(3000, 5, 812, 5)),
        Trap.MIGRATION_ZNODE, Result.STOP, "delete every topic that it does not know"),
    "a KRaft epoch in a state": (
        lambda w: w.is_led(ORDERS, 1, 2, 2, 3, epoch=57), Trap.EPOCHS, Result.STOP, "carries controller epoch 57"),
    "a KRaft epoch that goes into states": (
        lambda w: w.is_led_by_kraft(epoch=57).stops(1, 2, 3), Trap.EPOCHS, Result.WARNING, "KRaft writes epoch 57"),
    "no controller epoch": (lambda w: w.write("/controller_epoch", b"seven"), Trap.EPOCHS, Result.STOP, "no readable"),
    "finalizing too early": (
        lambda w: w.is_led_by_kraft(),
        Trap.FINALIZING, Result.STOP, "brokers 1, 2, 3 still registered in ZooKeeper"),
    "producer ids that cannot be read": (
        lambda w: w.write("/latest_producer_id_block", b"{"), Trap.PRODUCER_IDS, Result.STOP, "break off"),
    "producer ids that were lost": (
        lambda w: w.write("/latest_producer_id_block", b"").creates(TopicName("__transaction_state"), {0: (1, 2)}),
        Trap.PRODUCER_IDS, Result.STOP, "from 0 on a second time"),
    "replicas of this controller": (
        lambda w: w.starts(901, Broker(), is_ours=True), Trap.OWN_REPLICAS, Result.WARNING, "901"),
    "a replica that does not make way": (
        lambda w: w.all_have(zookeeper_metadata_migration_enable="true").starts(901, Broker(), is_ours=True).has(
            MigrationAddress(), Migration(3000, 5)),
        Trap.OWN_REPLICAS, Result.STOP, "though every broker is ready"),
    "a replica that waits for the last broker": (
        lambda w: w.all_have(zookeeper_metadata_migration_enable="true").starts(901, Broker(), is_ours=True).has(
            MigrationAddress(), Migration(3000, 5)).stops(3),
        Trap.OWN_REPLICAS, Result.WARNING, "901"),
    "the last broker restarts for the migration": (
        lambda w: w.all_have(zookeeper_metadata_migration_enable="true").stops(3),
        Trap.SETTINGS, Result.WARNING, "true on brokers 1, 2; broker 3 is not registered"),
    "a topic that waits for its deletion": (
        lambda w: w.write("/admin/delete_topics/old", b""), Trap.DELETIONS, Result.WARNING, "old"),
    "a topic without an id": (
        lambda w: w.creates(TopicName("bare"), {0: (1,)}, has_id=False), Trap.TOPICS, Result.STOP, "bare"),
    "a topic that cannot be read": (
        lambda w: w.write("/brokers/topics/junk", b"{junk"), Trap.TOPICS, Result.STOP, "/brokers/topics/junk"),
    "settings that cannot be read": (
        lambda w: w.write("/config/users/ann", b"{junk"), Trap.TOPICS, Result.STOP, "/config/users/ann"),
    "a topic with the name of KRaft's log": (
        lambda w: w.creates(TopicName("__cluster_metadata"), {0: (1,)}), Trap.TOPICS, Result.STOP, "KRaft's own log"),
    "a partition without a state": (
        lambda w: w.has(TopicAddress(TopicName("new")), NEW), Trap.TOPICS, Result.STOP, "without a state"),
    "a partition without a leader": (
        lambda w: w.is_led(ORDERS, 1, -1, 2, 3), Trap.PARTITIONS, Result.WARNING, "without a leader: orders-1"),
    "a replica that lags": (lambda w: w.is_led(ORDERS, 1, 2, 2), Trap.PARTITIONS, Result.WARNING, "orders-1"),
    "passwords set at run time": (
        lambda w: w.write("/config/brokers/2", b'{"version":1,"config":{"ssl.keystore.password":"x"}}'),
        Trap.ENCRYPTED, Result.WARNING, "set at run time for 2"),
    "users for which there is no place": (
        lambda w: w.all_have(protocol="3.4-IV0").write("/config/users/ann", SCRAM),
        Trap.USERS, Result.STOP, "1 SCRAM user"),
    "tokens for which there is no place": (
        lambda w: w.all_have(protocol="3.6-IV1").write("/delegation_token/tokens/a", b"{}"),
        Trap.USERS, Result.STOP, "1 delegation token"),
    "tokens": (lambda w: w.write("/delegation_token/tokens/a", b"{}"), Trap.USERS, Result.WARNING, "same secret"),
}
# fmt: on


def test_a_cluster_that_is_ready_has_nothing_in_the_way_and_what_is_not_known_is_said() -> None:
    found = ready().findings()

    assert {finding.result for finding in found} == {Result.UNKNOWN}
    assert {finding.trap for finding in found} == {Trap.PROTOCOL, Trap.MESSAGE_FORMAT, Trap.CLIENTS}
    assert all(finding.hint for finding in found)


@pytest.mark.parametrize("name", TRAPS)
def test_each_trap_that_is_planted_is_found_with_its_place_and_what_to_do(name: str) -> None:
    plant, trap, result, words = TRAPS[name]
    world = ready()
    plant(world)

    found = [f for f in world.findings(trap) if f.result is result and words in f.text]

    assert len(found) == 1
    assert found[0].where
    assert found[0].hint


def test_the_table_of_known_traps_names_all_that_are_planted_and_no_others() -> None:
    section = (Path(__file__).parents[2] / "traps.md").read_text().partition("## A migration to KRaft")[2]

    assert set(re.findall(r"\*([^*]+)\*", section)) == set(TRAPS)


def test_every_question_has_an_answer_in_every_cluster() -> None:
    assert {finding.trap for finding in judge(ready().look())} == set(Trap)
    assert {finding.trap for finding in judge(World().look())} == set(Trap)
    assert len(QUESTIONS) >= len(Trap)


def test_the_worst_result_is_that_of_the_whole_check() -> None:
    assert worst(judge(ready().look())) is Result.UNKNOWN
    assert worst(judge(ready().stops(3).look())) is Result.STOP


def test_a_broker_that_does_not_answer_is_not_known_and_the_others_are_judged() -> None:
    world = ready().starts(2, Broker(is_mute=True)).starts(3, Broker(protocol=None))

    (mute, refusing) = world.findings(Trap.BROKERS)

    assert (mute.result, mute.where, refusing.where) == (Result.UNKNOWN, "broker 2", "broker 3")
    assert "no answer" in mute.text
    assert "CLUSTER_AUTHORIZATION_FAILED" in refusing.text
    assert [f.result for f in world.findings(Trap.LOG_DIRECTORIES)] == [Result.UNKNOWN]


def test_directories_that_a_broker_does_not_report_are_not_called_sound() -> None:
    (found,) = ready().starts(2, Broker(refuses_directories=True)).findings(Trap.LOG_DIRECTORIES)

    assert (found.result, found.where) == (Result.UNKNOWN, "broker 2")


def test_ids_of_a_quorum_that_no_broker_knows_yet_are_asked_for_and_compared() -> None:
    world = World()

    assert [f.result for f in world.findings(Trap.NODE_IDS)] == [Result.UNKNOWN]
    assert world.findings(Trap.NODE_IDS, 3000, 3001) == []
    assert [f.result for f in world.findings(Trap.NODE_IDS, 3000, 2)] == [Result.STOP]


def test_where_replicas_that_stand_by_are_not_seen_their_ids_are_not_known_to_be_free() -> None:
    world = ready().write("/kafka_zk_controller/replicas/902", b"{}")
    world.ensemble.zookeeper.hidden.add("/kafka_zk_controller/replicas")

    (found,) = world.findings(Trap.NODE_IDS)

    assert found.result is Result.UNKNOWN
    assert world.findings(Trap.TOPICS) == []


@pytest.mark.parametrize(
    ("claim", "progress", "phase"),
    [
        (ControllerClaim(ONE), None, MigrationPhase.NONE),
        (ControllerClaim(BrokerId(901), is_ours=True), Migration(3000, 5), MigrationPhase.WAITING),
        (ControllerClaim(BrokerId(3000), kraft_epoch=5), Migration(3000, 5), MigrationPhase.COPYING),
        (ControllerClaim(BrokerId(3000), kraft_epoch=5), Migration(3000, 5, 812, 5), MigrationPhase.DUAL_WRITE),
        (ControllerClaim(ONE), Migration(3000, 5, 812, 5), MigrationPhase.LEFT_OVER),
    ],
)
def test_the_phase_is_what_two_znodes_show(
    claim: ControllerClaim, progress: Migration | None, phase: MigrationPhase
) -> None:
    world = ready().has(ControllerAddress(), claim)
    if progress is not None:
        world.has(MigrationAddress(), progress)

    assert world.look().phase is phase


def test_a_migration_that_waits_or_goes_on_is_no_trap() -> None:
    waiting = ready().has(MigrationAddress(), Migration(3000, 5))
    leading = ready().is_led_by_kraft().stops(1, 2, 3)

    assert waiting.findings(Trap.MIGRATION_ZNODE) == []
    assert leading.findings(Trap.MIGRATION_ZNODE) == leading.findings(Trap.BROKERS) == []
    assert leading.findings(Trap.FINALIZING) == []
