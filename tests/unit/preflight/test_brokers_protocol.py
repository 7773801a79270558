"""The brokers' own protocol is determined, and followed through a rolling upgrade by a new term."""

from __future__ import annotations

import pytest

from controller.core.candidacy.events import Event, ProtocolChanged, Unsound
from controller.preflight.brokers_protocol import REMEMBERED_S, BrokersProtocol
from controller.settings.kinds import AUTHORIZERS
from controller.wire.versions import OLDEST, parse_protocol
from tests.simulation.zookeeper import Permission, RemoveNode
from tests.unit.preflight.world import KAFKA_2_4, KAFKA_3_9, Broker, World
from zk_layout.ids import BrokerId

AUTO = "inter.broker.protocol.version=auto"
OLD, NEW = parse_protocol("2.4"), parse_protocol("3.9")
ONE, TWO = BrokerId(1), BrokerId(2)


def changes(world: World) -> list[Event]:
    """Its reports about protocols."""
    return [event for event in world.emitted if isinstance(event, ProtocolChanged)]


def protocol(world: World) -> str:
    """The next term's protocol."""
    return str(world.claimant.protocol)


# what brokers report


def test_until_a_broker_tells_it_is_what_all_understand() -> None:
    assert BrokersProtocol().value == OLDEST


def test_the_oldest_counts() -> None:
    spoken = BrokersProtocol()

    assert spoken.update({ONE: NEW, TWO: parse_protocol("2.8")}, 0.0)
    assert spoken.value == parse_protocol("2.8")


def test_what_makes_no_difference_for_a_controller_is_no_change() -> None:
    spoken = BrokersProtocol()
    spoken.update({ONE: parse_protocol("3.8")}, 0.0)

    assert not spoken.update({ONE: NEW}, 1.0)
    assert spoken.value == NEW


def test_a_broker_that_restarts_counts_as_it_was_for_a_while() -> None:
    spoken = BrokersProtocol()
    spoken.update({ONE: NEW, TWO: OLD}, 0.0)

    assert not spoken.update({ONE: NEW}, REMEMBERED_S)
    assert spoken.update({ONE: NEW}, REMEMBERED_S + 1)
    assert spoken.value == NEW


def test_the_last_report_counts_while_no_broker_answers() -> None:
    spoken = BrokersProtocol()
    spoken.update({ONE: NEW}, 0.0)

    assert not spoken.update({}, 10 * REMEMBERED_S)
    assert spoken.value == NEW


# what a process makes of it


def test_it_is_known_before_the_first_claim() -> None:
    world = World(AUTO).runs(Broker(protocol="3.5"), Broker(protocol="2.8"))

    verdict = world.passes()

    assert protocol(world) == "2.8-IV1"
    (warning,) = verdict.warnings
    assert "from 2.8-IV1 to 3.5-IV2; 2.8-IV1 is used" in warning.text


def test_a_broker_that_does_not_tell_counts_as_the_newest_that_it_understands() -> None:
    world = World(AUTO, f"authorizer.class.name={AUTHORIZERS[0]}").runs(Broker(protocol=None), Broker(KAFKA_2_4, None))

    world.passes()

    assert protocol(world) == "2.5-IV0"


def test_a_broker_that_is_too_busy_to_tell_does_not_count_as_the_newest_that_it_understands() -> None:
    busy = Broker(protocol="2.7")
    busy.is_busy = True
    world = World(AUTO).runs(busy)
    (warning,) = world.passes().warnings
    assert "no answer to DescribeConfigs: broker 1 (no answer from " in warning.text
    assert (protocol(world), world.claimant.inherited.are_known) == ("2.4-IV1", False)

    busy.is_busy = False
    world.goes_on(5.0)
    assert (protocol(world), world.claimant.inherited.are_known) == ("2.7-IV2", True)
    assert world.claimant.warnings == ()
    before = changes(world)
    busy.is_busy = True
    world.goes_on(REMEMBERED_S + 120.0)

    assert (protocol(world), changes(world)) == ("2.7-IV2", before)


def test_a_busy_broker_with_an_unsupported_protocol_beside_it_forbids_no_less() -> None:
    busy = Broker()
    busy.is_busy = True

    assert "inter.broker.protocol.version=2.3-IV1" in World(AUTO).runs(busy, Broker(protocol="2.3-IV1")).refusal()


def test_a_broker_that_is_there_and_mute_counts_as_it_was_and_one_that_has_gone_does_for_a_while() -> None:
    old = Broker(protocol="2.7")
    world = World(AUTO).runs(Broker(), old)
    world.passes()
    before = changes(world)
    old.is_mute = True

    world.goes_on(REMEMBERED_S + 120.0)
    assert (protocol(world), changes(world)) == ("2.7-IV2", before)

    world.ensemble.write(RemoveNode("/brokers/ids/2"))
    world.goes_on(REMEMBERED_S - 60.0)
    assert protocol(world) == "2.7-IV2"
    world.goes_on(120.0)
    assert protocol(world) == "3.9-IV0"


@pytest.mark.parametrize("settings", [AUTO, "inter.broker.protocol.version=2.4"])
def test_a_protocol_that_this_controller_does_not_speak_is_no_newer_one(settings: str) -> None:
    reason = World(settings).runs(Broker(protocol="2.3-IV1")).refusal()
    assert "broker 1 has inter.broker.protocol.version=2.3-IV1" in reason
    assert "raise it to 2.4 or more" in reason

    world = World(settings).runs(Broker(protocol="2.3-IV1"), Broker(protocol="2.4"))
    (warning,) = world.passes().warnings
    assert "broker 1 has inter.broker.protocol.version=2.3-IV1" in warning.text
    assert protocol(world) == "2.4-IV1"


def test_no_term_is_ended_for_another_one_that_could_not_load() -> None:
    world = World(AUTO).runs(Broker(protocol="2.4"))
    world.passes()
    before = changes(world)
    world.ensemble.zookeeper.acls["/brokers/topics"] = Permission.ALL & ~Permission.READ

    world.restarts(1, Broker())
    world.goes_on(60.0)
    assert (protocol(world), changes(world)) == ("3.9-IV0", before)

    del world.ensemble.zookeeper.acls["/brokers/topics"]
    world.goes_on(10.0)
    assert len(changes(world)) == len(before) + 1


def test_a_rolling_upgrade_is_followed_when_the_last_broker_has_been_raised() -> None:
    world = World(AUTO).runs(Broker(protocol="2.4"), Broker(protocol="2.4"))
    world.passes()
    before = changes(world)

    world.restarts(1, Broker())
    world.goes_on(20.0)
    assert (protocol(world), changes(world)) == ("2.4-IV1", before)

    world.restarts(2, Broker())
    world.goes_on(20.0)

    assert protocol(world) == "3.9-IV0"
    assert [str(e) for e in changes(world)[len(before) :]] == [
        "ProtocolChanged(detail='inter.broker.protocol.version is 3.9-IV0 now, and was 2.4-IV1')"
    ]


def test_a_broker_that_registers_before_it_listens_is_asked_again_soon_then_less_often() -> None:
    world = World(AUTO).runs(Broker(protocol="2.4"))
    world.passes()
    late = Broker(is_mute=True)
    world.restarts(1, late)
    world.goes_on(7.0)

    late.is_mute = False
    world.goes_on(10.0)

    assert protocol(world) == "3.9-IV0"


def test_the_first_broker_of_a_new_cluster_says_what_it_speaks() -> None:
    world = World(AUTO, is_new_cluster=True)
    world.passes()
    assert protocol(world) == "2.4-IV1"

    world.starts(Broker(KAFKA_3_9, "3.9"))
    world.goes_on(10.0)

    assert protocol(world) == "3.9-IV0"
    assert len(changes(world)) == 1


def test_a_protocol_that_is_set_is_kept() -> None:
    world = World("inter.broker.protocol.version=2.4").runs(Broker(protocol="2.4"))
    world.passes()

    world.restarts(1, Broker())
    world.goes_on(120.0)

    assert (protocol(world), changes(world)) == ("2.4-IV1", [])


def test_a_warning_ends_with_its_cause() -> None:
    lame = Broker(is_mute=True)
    world = World().runs(Broker(), lame)
    world.passes()
    assert "no answer: broker 2" in world.claimant.warnings[0]

    lame.is_mute = False
    world.goes_on(60.0)

    assert world.claimant.warnings == ()


def test_no_broker_is_asked_again_while_nothing_changes_but_now_and_then() -> None:
    broker = Broker()
    world = World(AUTO).runs(broker)
    world.passes()
    world.goes_on(10.0)
    asked = broker.asked

    world.goes_on(50.0)
    assert broker.asked == asked
    world.goes_on(10.0)
    assert broker.asked == asked + 2


def test_what_turns_out_later_forbids_nothing_any_more() -> None:
    world = World(AUTO).runs(Broker())
    world.passes()

    world.is_reached = False
    world.restarts(1, Broker())
    world.goes_on(20.0)

    assert not [event for event in world.emitted if isinstance(event, Unsound)]
    assert "this process is not reached" in world.claimant.warnings[0]


@pytest.mark.parametrize("settings", [AUTO, "inter.broker.protocol.version=3.9"])
def test_a_protocol_of_a_kafka_without_zookeeper_has_to_be_lowered(settings: str) -> None:
    reason = World(settings).runs(Broker(protocol="4.0-IV1")).refusal()

    assert "broker 1 has inter.broker.protocol.version=4.0-IV1" in reason
    assert "lower it to 3.9 on the brokers" in reason
