"""A process whose registration would harm the brokers claims nothing."""

from __future__ import annotations

import pytest

from controller.core.candidacy.events import Unsound
from controller.preflight.findings import Check
from tests.unit.preflight.world import Broker, World

TWO_LISTENERS = (
    "listeners=PLAINTEXT://0.0.0.0:9095,OUTSIDE://0.0.0.0:9096",
    "advertised.listeners=PLAINTEXT://controller:9095,OUTSIDE://controller:9095",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
)


# racks


def test_without_a_rack_where_all_brokers_have_one_the_hint_names_those_to_set() -> None:
    reason = World().runs(Broker(rack="a"), Broker(rack="b")).refusal()

    assert "brokers 1, 2 have a broker.rack, and this process has none" in reason
    assert "create no topics" in reason
    assert "set broker.rack to one of a, b" in reason


def test_with_a_rack_where_no_broker_has_one_the_hint_is_to_remove_it() -> None:
    reason = World("broker.rack=a").runs(Broker(), Broker()).refusal()

    assert "brokers 1, 2 have no broker.rack, and this process has a" in reason
    assert "remove broker.rack" in reason


@pytest.mark.parametrize("settings", [(), ("broker.rack=a",)])
def test_brokers_of_which_only_some_have_a_rack_are_led_either_way(settings: tuple[str, ...]) -> None:
    assert not World(*settings).runs(Broker(rack="a"), Broker()).passes().warnings


@pytest.mark.parametrize("rack", ["a", "of its own"])
def test_any_rack_is_right_where_all_brokers_have_one(rack: str) -> None:
    assert not World(f"broker.rack={rack}").runs(Broker(rack="a"), Broker(rack="b")).passes().warnings


def test_the_operator_may_tolerate_it() -> None:
    (warning,) = World("controller.preflight.tolerate=rack").runs(Broker(rack="a")).passes().warnings

    assert warning.check is Check.RACK


def test_brokers_of_a_new_cluster_show_their_racks_when_they_come() -> None:
    world = World(is_new_cluster=True)
    world.passes()

    world.write("/cluster/id", b"{}")
    world.starts(Broker(rack="a"))

    assert "set broker.rack to one of a" in str(world.until(Unsound))


# where brokers look for their controller


@pytest.mark.parametrize(
    "settings",
    [
        {"inter.broker.listener.name": "REPLICATION", "security.inter.broker.protocol": "PLAINTEXT"},
        {"inter.broker.listener.name": "", "security.inter.broker.protocol": "REPLICATION"},
        {"inter.broker.listener.name": "PLAINTEXT", "control.plane.listener.name": "REPLICATION"},
    ],
)
def test_a_listener_on_which_brokers_look_for_their_controller_is_missed(settings: dict[str, str]) -> None:
    reason = World().runs(*(Broker(also=("REPLICATION",), settings=settings) for _ in range(2))).refusal()

    assert "brokers 1, 2 look for their controller on listener REPLICATION, and this process has PLAINTEXT" in reason


def test_that_one_broker_looks_elsewhere_is_a_warning() -> None:
    lame = Broker(also=("REPLICATION",), settings={"inter.broker.listener.name": "REPLICATION"})
    usual = Broker(settings={"inter.broker.listener.name": "PLAINTEXT"})

    (warning,) = World().runs(usual, lame).passes().warnings

    assert "broker 2 looks for its controller on listener REPLICATION" in warning.text


def test_a_listener_that_is_there_for_brokers_is_not_missed() -> None:
    settings = {"inter.broker.listener.name": "OUTSIDE"}

    assert not World(*TWO_LISTENERS).runs(Broker(also=("OUTSIDE",), settings=settings)).passes().warnings


# where clients look for it


def test_a_listener_that_all_brokers_have_is_missed_by_clients() -> None:
    (warning,) = World().runs(Broker(also=("OUTSIDE",)), Broker(also=("OUTSIDE", "THIRD"))).passes().warnings

    assert "all brokers have a listener OUTSIDE, and this process has not" in warning.text
    assert "clients that connect by it find no controller" in warning.text
    assert warning.check is Check.ADVERTISED


def test_the_same_listeners_as_all_brokers_have_are_right() -> None:
    assert not World(*TWO_LISTENERS).runs(Broker(also=("OUTSIDE",))).passes().warnings
