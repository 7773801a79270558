"""Whatever would make a claim harmful is found and reported before it; what one broker lacks prevents no claim."""

from __future__ import annotations

import pytest

from controller.core.candidacy.events import Claimed, Unsound, Watching
from controller.preflight.findings import Check
from controller.settings.kinds import AUTHORIZERS
from tests.simulation.zookeeper import Permission, RemoveNode
from tests.unit.preflight.world import KAFKA_2_4, Broker, World
from zk_layout.ids import BrokerId, PartitionId, TopicName
from zk_layout.znodes.controller_ids import ControllerIds, ControllerIdsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

OURS = f"authorizer.class.name={AUTHORIZERS[0]}"
MUTE = Broker(is_mute=True)
ORDERS = TopicAddress(TopicName("orders"))


def on(*replicas: int) -> Topic:
    """A topic with one partition."""
    return Topic({PartitionId(0): Assignment(tuple(map(BrokerId, replicas)))})


def test_a_sound_cluster_passes_says_what_was_found_and_is_claimed() -> None:
    world = World().runs(Broker(), Broker())

    verdict = world.passes()

    assert not verdict.warnings
    assert [finding.text for finding in verdict.findings] == [
        "cluster abc, brokers 1, 2",
        "901 is free",
        "ZooKeeper's ACLs let this process read and write what it needs",
        "brokers 1, 2 answer on listener PLAINTEXT",
        "inter.broker.protocol.version 3.9-IV0 on brokers 1, 2, and 3.9-IV0 here",
        "this process answers at PLAINTEXT://controller:9095",
    ]
    assert isinstance(world.claims(), Claimed)


# an empty tree


def test_an_empty_tree_is_not_led_and_nothing_is_laid_out_in_it() -> None:
    reason = World("zookeeper.connect=simulated:2181/kafak").refusal()

    assert "no Kafka cluster is at simulated:2181/kafak: the chroot does not exist" in reason
    assert "--new-cluster" in reason


def test_a_cluster_at_another_chroot_is_named() -> None:
    world = World("zookeeper.connect=simulated:2181")
    world.write("/kafka/cluster/id", b"{}")
    assert "; one is at /kafka; set zookeeper.connect" in world.refusal()

    world = World("zookeeper.connect=simulated:2181/kafka").runs()
    assert "; one is at /; set zookeeper.connect" in world.refusal()


def test_a_tree_that_only_a_controller_has_laid_out_is_still_empty() -> None:
    reason = World().refusal()

    assert "it holds admin, brokers, config, consumers, controller_epoch" in reason
    assert "and no /cluster/id" in reason


@pytest.mark.parametrize("chroot", ["", "/kafka", "/a/b"])
def test_a_new_cluster_begins_where_the_operator_says_so(chroot: str) -> None:
    world = World(f"zookeeper.connect=simulated:2181{chroot}", is_new_cluster=True)

    world.passes()

    assert f"{chroot}/brokers/ids" in world.ensemble.zookeeper.nodes
    assert isinstance(world.claims(), Claimed)


def test_the_brokers_of_a_new_cluster_are_looked_at_when_they_come() -> None:
    world = World(is_new_cluster=True)
    world.passes()

    world.write("/cluster/id", b"{}")
    first = world.starts(Broker(listener="INSIDE"))
    assert "no broker has a listener PLAINTEXT" in str(world.until(Unsound))
    before = len(world.emitted)
    world.restarts(first, Broker(listener="INSIDE"))
    world.starts(Broker())

    world.until(Watching, before)


def test_a_broker_of_a_new_cluster_that_registers_before_it_listens_costs_no_term() -> None:
    world = World(is_new_cluster=True)
    world.passes()
    first = world.starts(Broker(is_mute=True))
    world.is_reached = False

    world.goes_on(20.0)
    assert not [event for event in world.emitted if isinstance(event, Unsound)]
    assert "no broker answers on listener PLAINTEXT: broker 1 (" in str(world.claimant.warnings)

    world.brokers[first].is_mute = False
    world.goes_on(10.0)
    assert "no broker is registered" not in str(world.claimant.warnings)
    assert len(world.claimant.warnings) == 1


def test_no_trouble_with_looking_ends_a_reign_that_began_before_any_broker_ran() -> None:
    world = World(is_new_cluster=True)
    world.passes()

    world.bug = ZeroDivisionError("a bug")
    world.goes_on(10.0)
    world.bug = None
    world.ensemble.write(RemoveNode("/config/changes"))
    world.ensemble.zookeeper.acls["/config"] = Permission.READ  # what is missing cannot be created
    world.goes_on(10.0)

    assert not [event for event in world.emitted if isinstance(event, Unsound)]


def test_a_bug_in_the_checks_is_reported_by_a_process_that_has_not_passed_yet() -> None:
    world = World().runs(Broker())
    world.bug = ZeroDivisionError("a bug")
    assert world.refusal() == "ZeroDivisionError: a bug"

    world.bug = None
    world.until(Watching)


def test_brokers_of_a_new_cluster_that_could_not_be_listed_for_a_while_are_still_looked_at() -> None:
    world = World(is_new_cluster=True)
    world.passes()
    world.ensemble.zookeeper.acls["/brokers/ids"] = Permission.ALL & ~Permission.READ
    world.goes_on(10.0)
    assert not [event for event in world.emitted if isinstance(event, Unsound)]

    del world.ensemble.zookeeper.acls["/brokers/ids"]
    world.starts(Broker(listener="INSIDE"))

    assert "no broker has a listener PLAINTEXT" in str(world.until(Unsound))


def test_an_old_cluster_whose_brokers_are_all_down_gets_its_controller() -> None:
    verdict = World().runs().passes()

    assert [w.text for w in verdict.warnings] == ["cluster abc, but no broker is registered"]


# listeners and addresses


def test_a_listener_that_no_broker_has_is_named_with_those_that_they_have() -> None:
    world = World().runs(Broker(listener="INSIDE"), Broker(listener="OUTSIDE"))

    assert "no broker has a listener PLAINTEXT; brokers 1, 2 have INSIDE, OUTSIDE" in world.refusal()


def test_brokers_none_of_which_answers_cannot_be_led_from_here_until_one_does() -> None:
    world = World().runs(Broker(is_mute=True), Broker(is_mute=True))
    assert "no broker answers on listener PLAINTEXT: broker 1 (" in world.refusal()

    world.brokers[BrokerId(2)].is_mute = False

    world.until(Watching)


@pytest.mark.parametrize("lame", [MUTE, Broker(listener="INSIDE"), Broker(protocol=None)])
def test_what_one_broker_lacks_keeps_no_controller_away(lame: Broker) -> None:
    world = World().runs(Broker(), lame)

    world.passes()

    assert isinstance(world.claims(), Claimed)


def test_what_has_passed_once_is_claimed_however_many_brokers_die() -> None:
    world = World().runs(Broker(), Broker())
    world.passes()
    for broker in world.brokers.values():
        broker.is_mute = True
    asked = [broker.asked for broker in world.brokers.values()]

    assert isinstance(world.claims(), Claimed)
    assert [broker.asked for broker in world.brokers.values()] == asked


def test_an_address_without_an_answer_is_named() -> None:
    world = World().runs(Broker())
    world.is_reached = False

    assert "this process is not reached at PLAINTEXT://controller:9095: " in world.refusal()


def test_the_address_of_a_broker_is_not_ours() -> None:
    world = World("advertised.listeners=PLAINTEXT://broker-1:9092").runs(Broker())

    assert "PLAINTEXT://broker-1:9092 is the address of broker 1, not of this process" in world.refusal()


def test_an_address_for_clients_only_is_a_warning() -> None:
    world = World(
        "listeners=PLAINTEXT://0.0.0.0:9095,OUTSIDE://0.0.0.0:9096",
        "advertised.listeners=PLAINTEXT://controller:9095,OUTSIDE://elsewhere:9096",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    ).runs(Broker())

    assert [w.check for w in world.passes().warnings] == [Check.ADVERTISED]


def test_what_the_operator_tolerates_is_a_warning() -> None:
    world = World("controller.preflight.tolerate=advertised-listeners, brokers").runs(Broker())
    world.is_reached = False

    (warning,) = world.passes().warnings

    assert "this process is not reached" in warning.text


# protocols


def test_a_protocol_older_than_on_every_broker_is_refused_with_the_right_one() -> None:
    reason = World("inter.broker.protocol.version=2.8").runs(Broker(), Broker(protocol="3.5")).refusal()

    assert "inter.broker.protocol.version=2.8-IV1 is older than on every broker, the oldest being 3.5-IV2" in reason
    assert "set it to 3.5-IV2" in reason


def test_a_protocol_newer_than_on_every_broker_is_refused() -> None:
    reason = World().runs(Broker(protocol="2.4"), Broker(protocol="2.4")).refusal()

    assert "inter.broker.protocol.version=3.9-IV0 is newer than on every broker, the newest being 2.4-IV1" in reason


def test_commands_that_a_broker_does_not_understand_are_named() -> None:
    reason = World().runs(Broker(), Broker(KAFKA_2_4, "2.4-IV1")).refusal()

    assert "broker 2 understands LEADER_AND_ISR 0 to 4, and inter.broker.protocol.version=3.9-IV0 means 7" in reason
    assert "the newest that all of them understand is 2.5" in reason


def test_a_protocol_that_leads_in_the_same_manner_passes() -> None:
    assert not World("inter.broker.protocol.version=3.8").runs(Broker()).passes().warnings


@pytest.mark.parametrize("ours", ["2.4", "3.9"])
def test_while_brokers_are_raised_one_after_the_other_both_are_right(ours: str) -> None:
    world = World(f"inter.broker.protocol.version={ours}").runs(Broker(), Broker(protocol="2.4"))

    (warning,) = world.passes().warnings

    assert "from 2.4-IV1 to 3.9-IV0" in warning.text


def test_brokers_that_do_not_tell_are_a_warning() -> None:
    settings = "inter.broker.protocol.version=2.4", OURS
    protocol, decided_by = World(*settings).runs(Broker(protocol=None)).passes().warnings

    assert "no broker reports its inter.broker.protocol.version" in protocol.text
    assert decided_by.text == (
        "no broker reports the settings by which a controller decides; unclean.leader.election.enable=false, "
        "delete.topic.enable=true, num.partitions=1 … are in force"
    )


# authorizers


@pytest.mark.parametrize("broker", [Broker(authorizer=AUTHORIZERS[0]), Broker(protocol=None)])
def test_brokers_with_an_authorizer_are_not_led_by_a_process_without_one(broker: Broker) -> None:
    reason = World().runs(broker).refusal()

    assert "broker 1 uses the authorizer " in reason
    assert "this process has none: clients are not served; set authorizer.class.name, super.users" in reason
    assert World("controller.preflight.tolerate=authorizer").runs(broker).passes().warnings


def test_an_authorizer_that_only_java_can_run_is_named() -> None:
    reason = World().runs(Broker(authorizer="io.confluent.Authorizer")).refusal()

    assert "broker 1 uses the authorizer io.confluent.Authorizer, and this process has none" in reason
    assert f"only {AUTHORIZERS[0]} is supported" in reason


def test_brokers_with_a_java_authorizer_are_not_led_by_a_process_with_acls() -> None:
    reason = World(OURS).runs(Broker(authorizer="io.confluent.Authorizer")).refusal()

    assert f"broker 1 uses the authorizer io.confluent.Authorizer, and this process uses {AUTHORIZERS[0]}" in reason
    tolerated = World(OURS, "controller.preflight.tolerate=authorizer")
    assert tolerated.runs(Broker(authorizer="io.confluent.Authorizer")).passes().warnings


def test_the_same_authorizer_is_sound_and_some_brokers_without_one_are_a_warning() -> None:
    predecessor = Broker(authorizer="kafka.security.auth.SimpleAclAuthorizer")
    assert not World(OURS).runs(Broker(authorizer=AUTHORIZERS[0]), predecessor).passes().warnings

    (warning,) = World(OURS).runs(Broker(), predecessor).passes().warnings
    assert "broker 1 without authorizer.class.name, and here it is" in warning.text
    (warning,) = World().runs(Broker(), predecessor).passes().warnings
    assert "broker 2 uses the authorizer kafka.security.auth.SimpleAclAuthorizer" in warning.text


# what a native controller takes from its broker


def test_settings_that_contradict_all_brokers_are_a_warning() -> None:
    brokers = [Broker(settings={"delete.topic.enable": "false", "num.partitions": "1"}) for _ in range(2)]

    (warning,) = World("delete.topic.enable=true").runs(*brokers).passes().warnings

    assert warning.text == "delete.topic.enable is false on brokers 1, 2, and true here"
    assert "set them alike" in warning.hint
    assert not World("delete.topic.enable=FALSE").runs(*brokers).passes().warnings


def test_what_is_in_force_because_all_brokers_have_it_is_said() -> None:
    brokers = [Broker(settings={"delete.topic.enable": "false", "num.partitions": "3"}) for _ in range(2)]

    texts = [finding.text for finding in World().runs(*brokers).passes().findings]

    assert "in force as on brokers 1, 2: delete.topic.enable=false, num.partitions=3" in texts


def test_brokers_that_contradict_each_other_are_a_warning_that_names_what_is_in_force() -> None:
    brokers = [Broker(settings={"delete.topic.enable": text}) for text in ("true", "false", "true")]

    (warning,) = World().runs(*brokers).passes().warnings

    assert warning.text == (
        "delete.topic.enable is true on brokers 1, 3, false on broker 2; false, the most protective, is in force"
    )


def test_a_policy_of_the_brokers_is_a_warning_that_says_what_becomes_of_new_topics() -> None:
    judging = Broker(settings={"create.topic.policy.class.name": "com.acme.Policy"})

    (warning,) = World().runs(Broker(), judging).passes().warnings
    assert warning.text == (
        "broker 2 would check new topics with com.acme.Policy (create.topic.policy.class.name), a Java class that "
        "cannot run here: CreateTopics is answered POLICY_VIOLATION"
    )
    (warning,) = World("create.topic.policy.ignore=true").runs(judging).passes().warnings
    assert "topics are created without it" in warning.text


# ids and rights


def test_the_id_of_a_broker_that_is_down_is_not_free() -> None:
    reason = World().runs(Broker()).has(on(1, 901), ORDERS).refusal()

    assert "topic orders has a replica on 901, so it is the id of a broker that is down" in reason


def test_an_id_is_looked_for_in_all_of_many_topics() -> None:
    world = World().runs(Broker())
    for number in range(25):
        world.has(on(1), TopicAddress(TopicName(f"orders-{number}")))

    reason = world.has(on(1, 901), TopicAddress(TopicName("orders-9"))).refusal()

    assert "topic orders-9 has a replica on 901" in reason


def test_the_id_of_a_controller_on_which_a_broker_placed_replicas_is_free() -> None:
    world = World().runs(Broker()).has(on(1, 901), ORDERS)

    world.has(ControllerIds((BrokerId(901),)), ControllerIdsAddress()).passes()


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/", "create children of /"),
        ("/controller_epoch", "write /controller_epoch"),
        ("/brokers/ids", "create children of /brokers/ids"),
        (ORDERS.path, "write /brokers/topics/orders"),
    ],
)
def test_rights_that_every_term_needs_are_missed_before_the_claim(path: str, right: str) -> None:
    world = World().runs(Broker()).has(on(1), ORDERS)
    world.ensemble.zookeeper.acls[path] = Permission.READ

    reason = world.refusal()

    assert f"ZooKeeper does not let this process {right} (sasl:kafka may)" in reason
    assert "log in at ZooKeeper as the brokers do" in reason
    del world.ensemble.zookeeper.acls[path]
    world.until(Watching)


def test_other_rights_are_warnings() -> None:
    world = World().runs(Broker())
    world.ensemble.zookeeper.acls["/isr_change_notification"] = Permission.READ

    (warning,) = world.passes().warnings

    assert "does not let this process delete children of /isr_change_notification" in warning.text


def test_a_clock_that_is_behind_is_a_warning() -> None:
    world = World().runs(Broker())
    world.now_ms = -100_000

    (warning,) = world.passes().warnings

    assert warning.text == "a znode was written more than 30 s from now, by the clock of this host"
    world.now_ms -= 10_000
    world.goes_on(120.0)
    assert world.claimant.warnings == (str(warning),)  # and not reported again


def test_a_refusal_is_reported_again_only_while_it_lasts() -> None:
    world = World().runs(Broker(listener="INSIDE"))
    world.refusal()
    world.goes_on(60.0)
    assert 10 < len(world.emitted) < 20

    world.ensemble.write(RemoveNode("/brokers/ids/1"))
    world.starts(Broker())

    world.until(Watching)
