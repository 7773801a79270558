"""What does an error cost, and what goes on beside it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.core.elections.duty import Elections
from controller.core.machine import Machine
from controller.core.messages.effects import Answer, Connect, Effect, Measured, Notice, Set, StepDown, Wake
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Asked, CallId, Committed, Event, Loaded, Observed, Woke
from controller.core.messages.replies import PartitionsCreated, ReassignmentsAltered, TopicsCreated
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    Caller,
    CreatePartitions,
    CreateTopics,
    Growth,
    IsrProposal,
    ListReassignments,
    Mode,
    NewTopic,
    PartitionReassignment,
    Request,
    TopicReference,
)
from controller.core.reassignment.legacy_znode import SUBJECT
from controller.core.scheduling.quarantine import MOST_SHOWN, Quarantine, described
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings, TurnBudget
from controller.core.single_znodes.notifications import Notifications
from controller.core.steps.quarantined_topics import TryTopicAgain
from controller.core.topics import create_topics
from controller.core.topics.duty import Topics
from controller.core.transactions.owner import TryAgain
from tests.unit.core.builders import EPOCH, OWN, Term, commits, ids, registration, state
from tests.unit.traps.play import Play, cluster, some
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.admin import (
    LegacyMove,
    LegacyReassignment,
    LegacyReassignmentAddress,
    TopicDeletionAddress,
    encode_reassignment,
)
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.notifications import IsrChange, IsrChangeAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress, encode

CALLER = Caller("PLAINTEXT", "127.0.0.1")
ID = TopicId("AAECAwQFBgcICQoLDA0ODw")
STAT = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
INT32_MAX = 2**31 - 1


def topic(name: str, *states: PartitionState, replicas: str = "1,2") -> tuple[Fact, ...]:
    """A topic whose partitions are all on the same brokers."""
    partitions = {PartitionId(n): Assignment(ids(replicas)) for n in range(len(states))}
    of_states = (present(StateAddress(TopicName(name), PartitionId(n)), s, STAT) for n, s in enumerate(states))
    return (present(TopicAddress(TopicName(name)), Topic(partitions, ID), STAT), *of_states)


class Turns:
    """A machine whose transactions ZooKeeper accepts."""

    def __init__(self, *facts: Fact, **settings: Any) -> None:
        self.machine = Machine(MachineSettings(own_id=OWN, **settings), EPOCH, SeededRandom(b"0"))
        self.now, self.zxid = 0.0, 5000
        brokers = tuple(registration(broker) for broker in (OWN, *ids("1,2,3")))
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
        raise RuntimeError("it does not settle")

    def dies(self, broker: int) -> list[Effect]:
        self.zxid += 1
        return self.turn(Observed((absent(BrokerAddress(BrokerId(broker)), Zxid(self.zxid)),)))


def led(effects: list[Effect]) -> dict[str, int]:
    """The leaders written, by path."""
    writes = (write for commit in commits(effects) for write in commit.writes if isinstance(write, Set))
    return {w.address.path: w.value.leader for w in writes if isinstance(w.value, PartitionState)}


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


# ---- what cannot be done holds up nothing else ----------------------------------------------------------------


def test_a_step_that_is_always_too_large_keeps_no_election_off() -> None:
    """A topic that needs an id, for which its znode has no room."""
    partitions = {PartitionId(n): Assignment(ids("1,2")) for n in range(60)}
    name = TopicName("a")
    states = (present(StateAddress(name, n), state(1, "1,2"), STAT) for n in partitions)
    data = len(encode(Topic(partitions)))
    turns = Turns(present(TopicAddress(name), Topic(partitions), STAT), *states, znode_size_limit=data + 90)

    effects = turns.dies(1)

    assert len(led(effects)) == 60
    assert set(led(effects).values()) == {2}
    assert len(notices(effects, "oversized znode")) <= 1
    assert any("topic a: writing /brokers/topics/a would take" in shown for shown in turns.machine.quarantined())


def alter(broker: int, number: int, isr: str, partition_epoch: int) -> AlterPartition:
    """A leader proposes an ISR, as of leader epoch 3."""
    proposal = IsrProposal(
        TopicReference(name=TopicName("a")),
        PartitionId(number),
        LeaderEpoch(3),
        PartitionEpoch(partition_epoch),
        ids(isr),
    )
    return AlterPartition(BrokerId(broker), BrokerEpoch(broker), (proposal,))


def busy(turns: Turns, request: Callable[[int], Request], *events: Event) -> list[Effect]:
    """A request at every look, each granted: the topic never settles. What comes of it in some turns."""
    every: list[Effect] = []
    pending = list(events)
    for n in range(12):
        effects = turns.machine.turn([*pending, Asked(CallId(n), request(n), CALLER)], float(n))
        every += effects
        pending = []
        for commit in commits(effects):
            turns.zxid += 1
            pending.append(Committed(commit.commit, Zxid(turns.zxid)))
    return every


def test_a_broker_comes_back_into_a_topic_one_of_whose_leaders_asks_all_the_time() -> None:
    turns = Turns(*topic("a", state(1, "1,3"), state(2, "2,1"), replicas="1,2,3"))
    bounces = Observed((absent(BrokerAddress(BrokerId(2)), Zxid(5001)), registration(BrokerId(2), zxid=5002)))
    turns.zxid = 7000

    effects = busy(turns, lambda n: alter(1, 0, "1,3" if n % 2 else "1", n), bounces)

    assert len([e for e in effects if isinstance(e, Answer)]) > 5
    assert [e.broker for e in effects if isinstance(e, Connect)] == [2]


def test_requests_at_every_look_keep_no_election_of_their_partition_off() -> None:
    turns = Turns(*topic("a", state(1, "1,2")))
    dies = Observed((absent(BrokerAddress(BrokerId(1)), Zxid(5001)),))
    turns.zxid = 7000
    at = TopicPartition(TopicName("a"), PartitionId(0))

    def move(n: int) -> AlterReassignments:
        return AlterReassignments((PartitionReassignment(at, ids("1,2") if n % 2 else ids("2,1")),), Mode.FORCED)

    assert 2 in [led([e]).get(path("a", 0)) for e in busy(turns, move, dies)]


def test_requests_at_every_other_look_keep_a_dead_broker_in_no_isr_where_a_look_is_at_one_partition() -> None:
    budget = TurnBudget(decided=1)
    turns = Turns(*topic("a", state(1, "1,3"), state(1, "1,3"), replicas="1,2,3"), budget=budget)
    dies = Observed((absent(BrokerAddress(BrokerId(3)), Zxid(5001)),))
    turns.zxid = 7000
    at = TopicPartition(TopicName("a"), PartitionId(0))

    def move(n: int) -> Request:
        to = ids("1,2,3") if n % 4 else ids("2,1,3")
        return ListReassignments(None) if n % 2 else AlterReassignments((PartitionReassignment(at, to),), Mode.FORCED)

    effects = busy(turns, move, dies)

    writes = [w for commit in commits(effects) for w in commit.writes if w.address == StateAddress(*at)]
    isrs = [w.value.isr for w in writes if isinstance(w, Set) and isinstance(w.value, PartitionState)]
    assert ids("1") in isrs[:3]


def test_a_notification_with_a_name_of_nearly_a_megabyte_is_deleted_like_others() -> None:
    names = ("isr_change_0000000001", "x" * 999_300, "isr_change_0000000002")
    facts = tuple(present(IsrChangeAddress(name), IsrChange(()), STAT) for name in names)

    turns = Turns(*facts)

    assert turns.machine.snapshot().in_flight == 0
    again = turns.turn(Observed(tuple(present(IsrChangeAddress(n), IsrChange(()), STAT) for n in ("new",))))
    assert [write.address for commit in commits(again) for write in commit.writes] == [IsrChangeAddress("new")]


def test_a_shutdown_is_answered_before_its_broker_gives_up_though_zookeeper_is_silent() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect", "hold reply")

    assert not some(play.do("shutdown 1", "time +19s"), "answer NONE")
    assert some(play.do("time +2s"), "answer NONE remaining: orders-0")
    assert some(play.do("reply", "shutdown 1"), "answer NONE remaining: none")


def test_a_repeated_shutdown_request_is_answered_and_announces_nothing_again() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2 1=2,1", "elect")
    assert play.do("shutdown 1", "time +1s")
    assert play.theatre.sent

    lines = play.do("shutdown 1", "time +1s")

    assert some(lines, "answer NONE remaining: none")
    assert play.theatre.sent == []


def test_a_broker_that_is_back_is_let_in_when_nothing_has_come_to_rest_for_long() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect", "hold reply")

    assert "connect 1" not in play.do("broker 1 bounces", "time +29s")
    assert "connect 1" in play.do("time +2s")


def test_a_broker_that_was_gone_for_a_moment_is_let_in_when_that_was_dealt_with() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect", "hold reply")

    assert "connect 1" not in play.do("broker 1 dies", "broker 1 returns")
    assert "connect 1" in play.do("reply")


# ---- sizes ----------------------------------------------------------------------------------------------------


def test_a_legacy_znode_too_large_to_be_struck_from_is_when_less_is_left_and_nothing_loops() -> None:
    """Its writer needed less room than we do, who check the controller epoch too."""
    names = [TopicName(f"{n}{'t' * 200}") for n in range(3)]
    targets = (ids("1,2"), ids("3,2"), ids("3,2"))  # the first is where it wants to be
    moves = tuple(LegacyMove(name, PartitionId(0), target) for name, target in zip(names, targets, strict=True))
    too_much = len(encode_reassignment(LegacyReassignment(moves[1:])))
    facts = [fact for name in names for fact in topic(name, state(1, "1,2"))]
    turns = Turns(*facts, znode_size_limit=too_much + 50)
    znode = LegacyReassignmentAddress()

    began = turns.turn(Observed((present(znode, LegacyReassignment(moves), STAT),)))

    struck = [w for c in commits(began) for w in c.writes if w.address == znode]
    assert struck == []
    (notice,) = notices(began, "oversized znode")
    assert notice.startswith("writing /admin/reassign_partitions would take a request of")
    moving = [w.address for c in commits(began) for w in c.writes if isinstance(w.address, TopicAddress)]
    assert moving == [TopicAddress(names[1]), TopicAddress(names[2])]

    deleting = present(TopicDeletionAddress(names[1]), None, Stat(Zxid(8000), Zxid(8000), ZnodeVersion(0)))
    turns.turn(Observed((deleting,)))
    turns.now = 40.0
    again = turns.turn(Woke(TryAgain(SUBJECT)))
    struck = [w for c in commits(again) for w in c.writes if w.address == znode]
    assert struck == [Set(znode, LegacyReassignment(moves[2:]), ZnodeVersion(0), STAT.czxid)]


def test_a_legacy_entry_too_large_for_its_topic_is_refused_and_holds_up_no_other() -> None:
    wide = topic("wide", *(state(1, "1,2") for _ in range(40)))
    turns = Turns(*wide, *topic("orders", state(1, "1,2")), znode_size_limit=600)
    znode, moves = (
        LegacyReassignmentAddress(),
        tuple(LegacyMove(TopicName(name), PartitionId(0), ids("3,2")) for name in ("wide", "orders")),
    )

    came = turns.turn(Observed((present(znode, LegacyReassignment(moves), STAT),)))

    (notice,) = notices(came, "refused legacy reassignment")
    assert notice.startswith(f"entry wide-0 of {znode.path} is refused and removed: writing /brokers/topics/wide")
    written = {w.address: w for c in commits(came) for w in c.writes}
    assert TopicAddress(TopicName("orders")) in written
    assert TopicAddress(TopicName("wide")) not in written
    assert written[znode] == Set(znode, LegacyReassignment(moves[1:]), ZnodeVersion(0), STAT.czxid)


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


def test_a_request_that_waits_keeps_no_decision_from_the_settings_it_needs() -> None:
    topic, state = "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "state orders-0 leader=1 isr=1 leader_epoch=1", "elect")
    play.do(f"refuse {topic}", "ask reassign orders-0 to=2,3")

    assert some(play.do("broker 1 dies"), f"set {state}", "leader=-1")
