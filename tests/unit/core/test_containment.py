"""What does an error cost, and what goes on beside it?"""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.effects import Answer, Commit, Effect, Notice, StepDown, Wake
from controller.core.errors import ErrorCode
from controller.core.events import Acknowledged, Asked, CallId, Committed, Event, Loaded, Observed, Woke
from controller.core.machine import Machine
from controller.core.replies import PartitionsCreated, ReassignmentsAltered
from controller.core.requests import AlterReassignments, Caller, CreatePartitions, Growth, PartitionReassignment
from controller.core.seeded_random import SeededRandom
from controller.core.set_aside import MOST_SHOWN, SetAside, described
from controller.core.settings import MachineSettings
from controller.core.steps.aside import LookAgain
from tests.unit.core.builders import EPOCH, OWN, Term, commits, ids, registration, state
from tests.unit.traps.play import Play, cluster, some
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

CALLER = Caller("PLAINTEXT", "127.0.0.1")
ID = TopicId("AAECAwQFBgcICQoLDA0ODw")
STAT = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
INT32_MAX = 2**31 - 1


def topic(name: str, *states: PartitionState) -> tuple[Fact, ...]:
    """A topic whose partitions are all on brokers 1 and 2."""
    partitions = {PartitionId(n): Assignment(ids("1,2")) for n in range(len(states))}
    of_states = (present(StateAddress(TopicName(name), PartitionId(n)), s, STAT) for n, s in enumerate(states))
    return (present(TopicAddress(TopicName(name)), Topic(partitions, ID), STAT), *of_states)


class Turns:
    """A machine whose transactions ZooKeeper accepts."""

    def __init__(self, *facts: Fact, **settings: Any) -> None:
        self.machine = Machine(MachineSettings(own_id=OWN, **settings), EPOCH, SeededRandom(b"0"))
        self.now, self.zxid = 0.0, 5000
        brokers = tuple(registration(broker) for broker in (OWN, *ids("1,2")))
        self.turn(Observed((*brokers, *facts)), Loaded())

    def turn(self, *events: Event) -> list[Effect]:
        """These events, and what follows until nothing is written or due any more."""
        every: list[Effect] = []
        pending = list(events)
        for _ in range(100):
            if not pending:
                return every
            effects = self.machine.turn(pending, self.now)
            every += effects
            pending = [Woke(e.alarm) for e in effects if isinstance(e, Wake) and e.at <= self.now]
            for commit in commits(effects):
                self.zxid += 1
                pending.append(Committed(commit.commit, Zxid(self.zxid)))
        raise RuntimeError("it does not come to rest")

    def dies(self, broker: int) -> list[Effect]:
        self.zxid += 1
        return self.turn(Observed((absent(BrokerAddress(BrokerId(broker)), Zxid(self.zxid)),)))


def led(effects: list[Effect]) -> dict[str, int]:
    """The leaders written, by path."""
    written = (write for effect in effects if isinstance(effect, Commit) for write in effect.writes)
    return {w.address.path: w.value.leader for w in written if isinstance(getattr(w, "value", None), PartitionState)}


def notices(effects: list[Effect], kind: str = "set aside") -> list[str]:
    return [e.text for e in effects if isinstance(e, Notice) and e.kind == kind]


def path(name: str, number: int) -> str:
    return f"/brokers/topics/{name}/partitions/{number}/state"


# ---- topics ---------------------------------------------------------------------------------------------------


def test_the_last_leader_epoch_costs_its_partition_only() -> None:
    last = state(1, "1,2", leader_epoch=INT32_MAX)
    turns = Turns(*topic("a", last, state(1, "1,2")), *topic("b", state(1, "1,2")))

    effects = turns.dies(1)

    assert led(effects) == {path("a", 1): 2, path("b", 0): 2}
    (notice,) = notices(effects)
    assert notice.startswith("topic a is set aside and tried again: OverflowError: leader epoch 2147483647 is the last")
    (shown,) = turns.machine.set_aside()
    assert "topic a: OverflowError" in shown
    assert turns.machine.figures()["set_aside"] == 1
    assert not [e for e in effects if isinstance(e, StepDown)]


def test_what_is_set_aside_is_tried_again_with_longer_waits_and_named_once() -> None:
    turns = Turns(*topic("a", state(1, "1,2", leader_epoch=INT32_MAX)))
    first = turns.dies(1)
    waits = [e.at - turns.now for e in first if isinstance(e, Wake) and isinstance(e.alarm, LookAgain)]

    for _ in range(6):
        turns.now += waits[-1]
        again = turns.turn(Woke(LookAgain(TopicName("a"))))
        assert notices(again) == []
        waits += [e.at - turns.now for e in again if isinstance(e, Wake) and isinstance(e.alarm, LookAgain)]

    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_what_goes_well_again_is_no_longer_shown() -> None:
    turns = Turns(*topic("a", state(1, "1,2", leader_epoch=INT32_MAX)))
    turns.dies(1)
    mended = present(
        StateAddress(TopicName("a"), PartitionId(0)), state(1, "1,2"), Stat(Zxid(10), Zxid(2000), ZnodeVersion(1))
    )

    turns.turn(Observed((mended,)))
    turns.now = 1.0
    effects = turns.turn(Woke(LookAgain(TopicName("a"))))

    assert led(effects) == {path("a", 0): 2}
    assert turns.machine.set_aside() == ()


def test_a_topic_that_goes_is_no_longer_shown() -> None:
    turns = Turns(*topic("a", state(1, "1,2", leader_epoch=INT32_MAX)))
    turns.dies(1)

    turns.turn(Observed((absent(TopicAddress(TopicName("a")), Zxid(9000)),)))

    assert turns.machine.set_aside() == ()


def test_no_isr_becomes_empty() -> None:
    """A leader outside the ISR, whose only member dies: the member stays, as in Kafka."""
    turns = Turns(*topic("a", state(1, "2")))

    assert led(turns.dies(2)) == {}
    assert turns.machine.set_aside() == ()


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
        "a PartitionReassignment of topic a is set aside and tried again: RecursionError: too deep"
    )
    assert turns.machine.set_aside() == ()  # the next one went well


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
    assert notices(effects) == [turns.machine.set_aside()[0].replace(":", " is set aside and tried again:", 1)]


def test_a_status_that_counts_beyond_what_can_be_sent_deposes_nobody() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2")
    play.do('znode /admin/reassign_partitions_status {"version":1,"last_request_id":9223372036854775808}', "elect")

    lines = play.do("ask reassign orders-0 to=1,3", "ask list orders-0")

    assert some(lines, "answer orders-0 NONE request")
    assert not some(lines, "step down")


def test_a_late_answer_about_a_topic_that_has_gone_deposes_nobody() -> None:
    play = cluster("broker 3 hangs")
    play.do("ask reassign orders-0 to=3,2")
    (tell, *_) = [t for t in play.theatre.told if t.broker == 3 and type(t.command).__name__ == "LeaderAndIsr"]
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
    assert any("Integer value out of range" in shown for shown in turns.machine.set_aside())


def test_of_very_many_the_first_are_shown() -> None:
    aside, out = SetAside(), Term().out()
    for n in range(MOST_SHOWN + 5):
        aside.put(f"topic {n}", "why", out)

    assert aside.sentences()[0] == "topic 0: why"
    assert aside.sentences()[-1] == "and 5 more"


def test_without_memory_nothing_is_contained() -> None:
    with pytest.raises(MemoryError):
        described(MemoryError())
