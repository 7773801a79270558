"""What does an error cost, and what goes on beside it?"""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.elections.duty import Elections
from controller.core.machine import Machine
from controller.core.messages.effects import Answer, Measured, StepDown, Wake
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Asked, CallId, Loaded, Observed, Woke
from controller.core.messages.replies import PartitionsCreated, ReassignmentsAltered, TopicsCreated
from controller.core.messages.requests import (
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    Growth,
    NewTopic,
    PartitionReassignment,
)
from controller.core.scheduling.quarantine import MOST_SHOWN, Quarantine, described
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.single_znodes.notifications import Notifications
from controller.core.steps.quarantined_topics import TryTopicAgain
from controller.core.topics import create_topics
from controller.core.topics.duty import Topics
from tests.unit.core.builders import EPOCH, OWN, Term, commits, ids, registration, state
from tests.unit.core.turns import CALLER, STAT, Turns, led, notices, path, topic
from tests.unit.traps.play import Play, cluster, some
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.notifications import IsrChange, IsrChangeAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import TopicAddress

INT32_MAX = 2**31 - 1


# ---- topics ---------------------------------------------------------------------------------------------------


def test_the_last_leader_epoch_costs_its_partition_only() -> None:
    last = state(1, "1,2", leader_epoch=INT32_MAX)
    turns = Turns(*topic("a", last, state(1, "1,2")), *topic("b", state(1, "1,2")))

    effects = turns.dies(1)

    assert led(effects) == {path("a", 1): 2, path("b", 0): 2}
    (notice,) = notices(effects)
    assert notice.startswith(
        "topic a is in quarantine and will be retried: OverflowError: leader epoch 2147483647 is the last"
    )
    (shown,) = turns.machine.quarantined()
    assert "topic a: OverflowError" in shown
    assert turns.machine.figures()["set_aside"] == 1
    assert not [e for e in effects if isinstance(e, StepDown)]


def test_what_is_set_aside_is_tried_again_with_longer_waits_and_named_once() -> None:
    turns = Turns(*topic("a", state(1, "1,2", leader_epoch=INT32_MAX)))
    first = turns.dies(1)
    waits = [e.at - turns.now for e in first if isinstance(e, Wake) and isinstance(e.alarm, TryTopicAgain)]

    for _ in range(6):
        turns.now += waits[-1]
        again = turns.turn(Woke(TryTopicAgain(TopicName("a"))))
        assert notices(again) == []
        waits += [e.at - turns.now for e in again if isinstance(e, Wake) and isinstance(e.alarm, TryTopicAgain)]

    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_what_goes_well_again_is_no_longer_shown() -> None:
    turns = Turns(*topic("a", state(1, "1,2", leader_epoch=INT32_MAX)))
    turns.dies(1)
    mended = present(
        StateAddress(TopicName("a"), PartitionId(0)), state(1, "1,2"), Stat(Zxid(10), Zxid(2000), ZnodeVersion(1))
    )

    turns.turn(Observed((mended,)))
    turns.now = 1.0
    effects = turns.turn(Woke(TryTopicAgain(TopicName("a"))))

    assert led(effects) == {path("a", 0): 2}
    assert turns.machine.quarantined() == ()


def test_a_topic_that_goes_is_no_longer_shown() -> None:
    turns = Turns(*topic("a", state(1, "1,2", leader_epoch=INT32_MAX)))
    turns.dies(1)

    turns.turn(Observed((absent(TopicAddress(TopicName("a")), Zxid(9000)),)))

    assert turns.machine.quarantined() == ()


def test_no_isr_becomes_empty() -> None:
    """A leader outside the ISR, whose only member dies: the member stays, as in Kafka."""
    turns = Turns(*topic("a", state(1, "2")))

    assert led(turns.dies(2)) == {}
    assert turns.machine.quarantined() == ()


def test_an_empty_isr_is_not_written_again() -> None:
    turns = Turns(*topic("a", state(1, "")))
    assert led(turns.dies(2)) == {}

    effects = turns.dies(1)

    (write,) = [write for commit in commits(effects) for write in commit.writes]
    assert getattr(write, "value", None) == PartitionState(BrokerId(-1), LeaderEpoch(4), EPOCH, ids("1"))


# ---- requests -------------------------------------------------------------------------------------------------


def test_a_topic_without_partitions_cannot_grow() -> None:
    turns = Turns(*topic("empty"))

    effects = turns.turn(Asked(CallId(1), CreatePartitions((Growth(TopicName("empty"), 3),)), CALLER))

    (answer,) = [e for e in effects if isinstance(e, Answer)]
    assert isinstance(answer.reply, PartitionsCreated)
    (result,) = answer.reply.results
    assert result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_part_of_a_request_that_raises_is_answered_so_and_the_others_are_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from controller.core.reassignment import alter_reassignments

    turns = Turns(*topic("a", state(1, "1,2"), state(1, "1,2")))
    consider = alter_reassignments.consider

    def raising(wanted: PartitionReassignment, *rest: Any) -> Any:
        if wanted.topic_partition.partition == 0:
            raise RecursionError("too deep")
        return consider(wanted, *rest)

    monkeypatch.setattr(alter_reassignments, "consider", raising)
    moves = tuple(PartitionReassignment(TopicPartition(TopicName("a"), PartitionId(n)), ids("2,1")) for n in (0, 1))

    effects = turns.turn(Asked(CallId(1), AlterReassignments(moves), CALLER))

    (answer,) = [e for e in effects if isinstance(e, Answer)]
    assert isinstance(answer.reply, ReassignmentsAltered)
    assert [r.error for r in answer.reply.results] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    (notice,) = notices(effects)
    assert notice.startswith(
        "a PartitionReassignment of topic a is in quarantine and will be retried: RecursionError: too deep"
    )
    assert turns.machine.quarantined() == ()  # the next one went well


def test_a_request_that_cannot_even_be_divided_is_answered_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from controller.core.topics import create_partitions

    turns = Turns(*topic("a", state(1, "1,2")))
    monkeypatch.setattr(create_partitions, "refuse_within", lambda _: 1 / 0)
    growth = Asked(CallId(1), CreatePartitions((Growth(TopicName("a"), 3),)), CALLER)
    move = PartitionReassignment(TopicPartition(TopicName("a"), PartitionId(0)), ids("2,1"))

    effects = turns.turn(growth, Asked(CallId(2), AlterReassignments((move,)), CALLER))

    replies = {e.call: e.reply for e in effects if isinstance(e, Answer)}
    grown, moved = replies[CallId(1)], replies[CallId(2)]
    assert isinstance(grown, PartitionsCreated)
    assert isinstance(moved, ReassignmentsAltered)
    assert [r.error for r in grown.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert [r.error for r in moved.results] == [ErrorCode.NONE]


# ---- everything else ------------------------------------------------------------------------------------------


def test_an_alarm_that_raises_rings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from controller.core.elections import preferred_leader
    from controller.core.elections.duty import Rebalance

    turns = Turns(*topic("a", state(1, "1,2")), rebalance_every_s=300.0)
    monkeypatch.setattr(preferred_leader, "unbalanced", lambda *_: 1 / 0)

    effects = turns.turn(Woke(Rebalance()))

    assert Wake(Rebalance(), 30.0) in effects
    assert notices(effects) == [
        turns.machine.quarantined()[0].replace(":", " is in quarantine and will be retried:", 1)
    ]


@pytest.mark.parametrize("last", [2**31 - 1, 2**31, 2**63, 2**64 - 1, 2**64])
def test_a_request_id_beyond_what_a_path_or_an_answer_can_hold_does_not_count(last: int) -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2")
    play.do(f'znode /admin/reassign_partitions_status {{"version":1,"last_request_id":{last}}}', "elect")

    lines = play.do("ask reassign orders-0 to=1,3", "ask list orders-0")

    assert some(lines, "answer orders-0 NONE request") == ["answer orders-0 NONE request 2"]


def test_a_late_answer_about_a_topic_that_has_gone_deposes_no_one() -> None:
    play = cluster("broker 3 hangs")
    play.do("ask reassign orders-0 to=3,2")
    (tell, *_) = [t for t in play.theatre.sent if t.broker == 3 and type(t.command).__name__ == "LeaderAndIsr"]
    play.do("broker 3 goes-on", "delete topic orders")
    assert play.data("/brokers/topics/orders") is None
    at = TopicPartition(TopicName("orders"), PartitionId(0))

    play.theatre._events.append(
        Acknowledged(BrokerId(3), tell.broker_epoch, tell.command, ErrorCode.NONE, {at: ErrorCode.KAFKA_STORAGE_ERROR})
    )
    play.theatre.run()
    lines = play.do("ask list", "broker 3 dies", "broker 3 returns", "create topic orders 0=3,1")

    assert some(lines, "new partition orders-0: 3 leads")
    assert play.theatre.machine is not None


def test_a_value_that_cannot_be_encoded_costs_its_own_write(monkeypatch: pytest.MonkeyPatch) -> None:
    from zk_layout.znodes import partition_state

    encode = partition_state.encode

    def raising(value: PartitionState) -> bytes:
        if value.leader_epoch == 100:
            raise OverflowError("Integer value out of range")
        return encode(value)

    monkeypatch.setitem(__import__("zk_layout.catalog", fromlist=["_ENCODERS"])._ENCODERS, PartitionState, raising)
    turns = Turns(*topic("a", state(1, "1,2", leader_epoch=99)), *topic("b", state(1, "1,2")))

    effects = turns.dies(1)

    assert led(effects) == {path("b", 0): 2}
    assert any("Integer value out of range" in shown for shown in turns.machine.quarantined())


def test_of_very_many_the_first_are_shown() -> None:
    quarantine, out = Quarantine(), Term().out()
    for n in range(MOST_SHOWN + 5):
        quarantine.put(f"topic {n}", "why", out)

    assert quarantine.sentences()[0] == "topic 0: why"
    assert quarantine.sentences()[-1] == "and 5 more"


def test_without_memory_nothing_is_contained() -> None:
    with pytest.raises(MemoryError):
        described(MemoryError())


# ---- whole topics ---------------------------------------------------------------------------------------------


def raises(*_: Any) -> None:
    raise RuntimeError("a bug")


def test_what_is_wrong_with_a_topic_as_a_whole_keeps_no_election_off(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(*topic("a", state(1, "1,2")), *topic("b", state(1, "1,2")))
    monkeypatch.setattr(Topics, "close_step", raises)

    effects = turns.dies(1)

    assert led(effects) == {path("a", 0): 2, path("b", 0): 2}
    assert len(turns.machine.quarantined()) == 2


def test_about_a_topic_where_even_elections_raise_nothing_is_decided_and_requests_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(*topic("a", state(1, "1,2")))
    monkeypatch.setattr(Topics, "close_step", raises)
    monkeypatch.setattr(Elections, "close_step", raises)
    assert led(turns.dies(1)) == {}
    move = PartitionReassignment(TopicPartition(TopicName("a"), PartitionId(0)), ids("2,1"))

    effects = turns.turn(Asked(CallId(1), AlterReassignments((move,)), CALLER))

    (answer,) = [e for e in effects if isinstance(e, Answer)]
    assert isinstance(answer.reply, ReassignmentsAltered)
    assert [r.error for r in answer.reply.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    monkeypatch.undo()
    turns.now = 1.0
    assert led(turns.turn(Woke(TryTopicAgain(TopicName("a"))))) == {path("a", 0): 2}


def test_many_partitions_that_raise_are_set_aside_as_one_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    last = state(1, "1,2", leader_epoch=INT32_MAX)
    turns = Turns(*topic("a", *(last for _ in range(40))), *topic("b", state(1, "1,2")))

    effects = turns.dies(1)

    assert led(effects) == {path("b", 0): 2}
    assert len([e for e in effects if isinstance(e, Measured) and e.measure == "contained_errors"]) < 30


def test_a_topic_that_cannot_be_created_because_of_a_bug_costs_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(*topic("a", state(1, "1,2")))
    monkeypatch.setattr(create_topics, "consider", raises)
    new = CreateTopics((NewTopic(TopicName("new"), 1, 1),))

    effects = turns.turn(Asked(CallId(1), new, CALLER))

    (answer,) = [e for e in effects if isinstance(e, Answer)]
    assert isinstance(answer.reply, TopicsCreated)
    assert [r.error for r in answer.reply.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_caller_who_cannot_be_judged_has_no_right() -> None:
    machine = Machine(MachineSettings(own_id=OWN), EPOCH, SeededRandom(b"0"), lambda *_: 1 / 0 == 0)
    machine.turn([Observed((registration(OWN),)), Loaded()], 0.0)

    effects = machine.turn([Asked(CallId(1), CreatePartitions((Growth(TopicName("a"), 3),)), CALLER)], 0.0)

    (answer,) = [e for e in effects if isinstance(e, Answer)]
    assert isinstance(answer.reply, PartitionsCreated)
    assert [r.error for r in answer.reply.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_duty_that_cannot_say_what_it_wants_written_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(*topic("a", state(1, "1,2")))
    monkeypatch.setattr(Notifications, "propose", raises)

    assert led(turns.dies(1)) == {path("a", 0): 2}
    (shown,) = turns.machine.quarantined()
    assert shown.startswith("what Notifications wants written: RuntimeError: a bug (")


def test_an_outcome_that_raises_keeps_no_other_from_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(*topic("a", state(1, "1,2")), present(IsrChangeAddress("x"), IsrChange(()), STAT))
    monkeypatch.setattr(Notifications, "settled", raises)

    effects = turns.turn(Observed((present(IsrChangeAddress("y"), IsrChange(()), STAT),))) + turns.dies(1)

    assert led(effects) == {path("a", 0): 2}
    assert turns.machine.snapshot().in_flight == 0
