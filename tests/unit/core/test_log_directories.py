"""What follows from a failed log directory of a broker that still runs?"""

from __future__ import annotations

import pytest

from controller.core.messages.commands import LeaderAndIsr
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged
from tests.unit.traps.play import Play, some
from zk_layout.ids import BrokerEpoch, BrokerId, PartitionId, TopicName, TopicPartition


def failed(*more: str) -> Play:
    """The only replica in sync, the leader, has lost its log directory; broker 2 could lead, but lacks records."""
    return Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "isr orders-0 1", *more)


def test_a_partition_whose_leader_has_lost_its_log_counts_as_offline_until_another_leads() -> None:
    play = failed("disk 1 fails orders-0")
    assert play.figures()["offline_partitions"] == 1

    lines = play.do("ask elect unclean")

    assert some(lines, "2 is elected on request")
    assert play.figures()["offline_partitions"] == 0


@pytest.mark.parametrize(("is_allowed", "why"), [("true", "allows 2: records may be lost"), ("false", "is online")])
def test_who_may_lead_instead_of_it_depends_on_the_settings_of_the_topic(is_allowed: str, why: str) -> None:
    play = failed(f"config orders unclean.leader.election.enable={is_allowed}")

    assert some(play.do("disk 1 fails orders-0"), "no in-sync replica of", why)


@pytest.mark.parametrize(("is_allowed", "leader"), [("true", "leader=2"), ("false", "leader=-1")])
def test_a_leader_that_shuts_down_and_loses_its_log_serves_no_one(is_allowed: str, leader: str) -> None:
    play = failed(f"config orders unclean.leader.election.enable={is_allowed}", "shutdown 1")

    assert some(play.do("disk 1 fails orders-0"), "set /brokers/topics/orders/partitions/0/state", leader)


def test_a_replica_may_fail_on_several_brokers_and_heals_on_each_by_itself() -> None:
    play = failed("disk 1 fails orders-0", "disk 2 fails orders-0")
    assert some(play.do("disk 3 fails"), "UpdateMetadata orders-0", "offline=[1, 2]")

    lines = play.do("disk 2 works", "broker 2 bounces")

    assert "offline=[1]" in some(lines, "UpdateMetadata orders-0")[-1] or some(lines, "LeaderAndIsr", "offline=[1]")
    assert play.figures()["offline_partitions"] == 1


def test_a_log_that_could_not_be_deleted_is_still_there_when_its_directory_is_back() -> None:
    play = failed("config orders unclean.leader.election.enable=true", "disk 2 fails orders-0")
    play.do("ask reassign orders-0 to=3,1")
    assert some(play.do("isr orders-0 1,3"), "tell 2", "StopReplica", "delete")
    play.do("disk 3 fails orders-0", "ask reassign orders-0 to=1,2", "disk 2 works", "broker 2 bounces")

    assert some(play.do("disk 1 fails orders-0"), "allows 2: records may be lost")


def test_a_topic_that_is_deleted_takes_its_failures_with_it() -> None:
    play = failed("disk 1 fails orders-0", "disk 1 works", "delete topic orders")

    lines = play.do("create topic orders 0=1,2")

    assert some(lines, "new partition orders-0: 1 leads, ISR [1, 2]")
    assert not some(lines, "offline=")


def test_what_a_broker_has_said_of_its_log_in_a_former_life_counts_no_more() -> None:
    play = failed()
    play.do("broker 1 bounces")
    told = [t for t in play.theatre.sent if t.broker == BrokerId(1) and isinstance(t.command, LeaderAndIsr)]
    at, former = TopicPartition(TopicName("orders"), PartitionId(0)), BrokerEpoch(told[-1].broker_epoch - 1)
    assert play.theatre.machine is not None

    late = Acknowledged(BrokerId(1), former, told[-1].command, ErrorCode.NONE, {at: ErrorCode.KAFKA_STORAGE_ERROR})

    assert play.theatre.machine.turn([late], 1.0) == []
