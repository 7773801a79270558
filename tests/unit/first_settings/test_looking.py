"""The id of a new replica is free, and what it finds passes the checks before a claim."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.first_settings.choosing import Own, choose
from controller.first_settings.found import BrokerConfiguration
from controller.first_settings.looking import seen_at
from controller.first_settings.own_id import free_id
from tests.unit.preflight.world import KAFKA_2_4, OUR_ADDRESS, Broker, World
from tests.unit.zk.simulated import Process
from zk_layout.ids import BrokerId, PartitionId, TopicName
from zk_layout.znodes.controller_ids import ControllerIds, ControllerIdsAddress
from zk_layout.znodes.replicas import Replica, ReplicaAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress


@given(st.sets(st.integers(0, 1100)), st.one_of(st.none(), st.integers(0, 1100)))
def test_an_id_is_free_and_below_those_that_are_generated(taken: set[int], highest: int | None) -> None:
    found = free_id([BrokerId(number) for number in taken], highest)

    if found is None:
        assert highest is not None
        assert set(range(highest + 1)) <= taken
    else:
        assert found not in taken
        assert highest is None or 0 <= found <= highest


def test_ids_of_brokers_replicas_former_controllers_and_assignments_are_taken() -> None:
    world = World().runs(Broker(rack="a"), Broker(rack="b"))
    world.has(ControllerIds((BrokerId(902),)), ControllerIdsAddress())
    world.has(Replica("standby", True, 0), ReplicaAddress(BrokerId(903)))
    world.has(Topic({PartitionId(0): Assignment((BrokerId(1), BrokerId(7)))}), TopicAddress(TopicName("orders")))
    process = Process(world.ensemble)

    seen = process.do(seen_at(process.bridge))
    process.end()

    assert seen.taken == {1, 2, 7, 902, 903}
    assert [one.rack for _, one in sorted(seen.registrations.items())] == ["a", "b"]
    assert not seen.trouble


def test_where_no_cluster_is_nothing_is_known() -> None:
    process = Process(World().ensemble, "simulated:2181/kafak")

    seen = process.do(seen_at(process.bridge))
    process.end()

    assert "no Kafka cluster is at simulated:2181/kafak" in seen.trouble


@pytest.mark.parametrize(
    "broker", [Broker(), Broker(KAFKA_2_4, "2.4-IV1"), Broker(rack="a")], ids=["3.9", "2.4", "rack"]
)
def test_a_replica_with_these_settings_may_lead_without_a_warning(broker: Broker) -> None:
    before = World().runs(broker)
    process = Process(before.ensemble)
    seen = process.do(seen_at(process.bridge))
    process.end()
    found = BrokerConfiguration({"zookeeper.connect": "simulated:2181", "broker.id": "1"}, "broker 1")
    made = choose(found, seen, Own(BrokerId(901), *OUR_ADDRESS))
    given_settings = [f"{line.key}={line.value}" for s in made.sections for line in s.lines if line.is_set]

    world = World("inter.broker.protocol.version=auto", *given_settings).runs(broker)

    assert not world.passes().warnings
