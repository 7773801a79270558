"""However much happens at once, a turn does a bounded part of it, and the next one goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from controller.core.clients import long_requests
from controller.core.clients.open_requests import Divided, Item, OpenRequests
from controller.core.messages.commands import LeaderAndIsr, StopReplica, UpdateMetadata
from controller.core.messages.effects import Answer, Commit, Effect, Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import CallId, LogDirsDescribed, Observed, ReplicaSize
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Growth,
    IsrProposal,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    TopicReference,
)
from controller.core.quotas.mutations import MutationQuotas
from controller.core.scheduling.agenda import Agenda, Due
from controller.core.settings import LEAST_LEFT, TurnBudget
from controller.core.state.changes import Changes
from controller.core.state.quotas import Quotas
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig
from tests.unit.traps.play import Play, some
from zk_layout.facts import Fact
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.configs import TopicConfigAddress

SHAPE = Shape(60, 10, 6)
BUDGET = TurnBudget(folded=120, followed=60, greeted=80, measured=40, deleted=40, decided=30, requested=50, hosted=25)
WIDE = TopicName("wide")
# One topic, transaction or request more than the budget may be begun.
SLACK = 30


class Counted(Rig):
    """A rig that notes how much each turn folded, wrote and told anybody at most."""

    def __init__(self) -> None:
        super().__init__(SHAPE, is_encoding=False, budget=BUDGET)
        self.forget_the_most()
        self.first_commit = self.first_update = 0
        self._folded = 0
        apply = self.machine._state.apply

        def counted(fact: Fact) -> None:
            self._folded += 1
            apply(fact)

        self.machine._state.apply = counted  # type: ignore[method-assign]
        self._opened = 0
        requests = self.machine._intake._shared.requests
        open_ = requests.open

        def opened(call: CallId, request: Divided, items: Sequence[Item], *rest: Any) -> None:
            self._opened += len(items)
            open_(call, request, items, *rest)

        requests.open = opened  # type: ignore[assignment, method-assign]

    def forget_the_most(self) -> None:
        self.written = self.sent = self.folded = self.opened = 0

    def turned(self, effects: Iterable[Effect]) -> None:
        self.folded, self._folded = max(self.folded, self._folded), 0
        self.opened, self._opened = max(self.opened, self._opened), 0
        written, told = 0, dict.fromkeys(self.brokers, 0)
        for effect in effects:
            if isinstance(effect, Commit):
                written += len(effect.operations)
            elif isinstance(effect, Tell):
                told[effect.broker] += _partitions(effect)
        self.written, self.sent = max(self.written, written), max(self.sent, *told.values())


def _partitions(tell: Tell) -> int:
    match tell.command:
        case LeaderAndIsr(partitions, new):
            return len(partitions) + len(new)
        case UpdateMetadata(partitions):
            return len(partitions)
        case StopReplica(stops):
            return len(stops)


@pytest.fixture
def rig() -> Counted:
    rig = Counted()
    for event in rig.everything():
        rig.emit(event)
    rig.run()
    return rig


def _return(rig: Rig) -> None:
    rig.observe([rig.registration(rig.brokers[0], rig.next_zxid())])


def _move(rig: Rig) -> None:
    wanted = tuple(
        PartitionReassignment(TopicPartition(rig.topic_name(t), PartitionId(n)), rig.replicas_of(t * 10 + n + 3))
        for t in range(SHAPE.topics)
        for n in range(SHAPE.partitions_per_topic)
    )
    rig.ask(AlterReassignments(wanted))


def _read_wide(rig: Rig) -> None:
    rig.observe(rig.topic_facts(WIDE, 0, 400, rig.next_zxid()))


def _delete(rig: Rig, *names: TopicName) -> CallId:
    return rig.ask(DeleteTopics(tuple(map(TopicReference, names))))


def test_at_the_beginning_everybody_hears_of_everything_bit_by_bit_and_of_nothing_twice(rig: Counted) -> None:
    assert rig.sent <= 2 * BUDGET.followed
    assert rig.storm.turns > SHAPE.partitions // BUDGET.followed
    assert rig.heard_by_broker() == {broker: SHAPE.partitions for broker in rig.brokers}


@pytest.mark.parametrize(
    ("happens", "shown_whole"),
    [(lambda rig: rig.lose(rig.brokers[0]), 0), (_move, 0), (_read_wide, 400)],
    ids=["a death", "a request", "a wide topic"],
)
def test_no_turn_decides_or_tells_more_than_its_budget_but_for_a_topic_that_is_shown_whole(
    rig: Counted, happens: Callable[[Rig], None], shown_whole: int
) -> None:
    rig.forget_the_most()

    happens(rig)
    rig.run()

    assert rig.written <= 3 * (BUDGET.decided + SLACK)
    assert 0 < rig.sent <= max(2 * BUDGET.followed + 2 * BUDGET.greeted, shown_whole + BUDGET.followed)


@pytest.mark.parametrize("happens", [lambda rig: rig.lose(rig.brokers[0]), _move], ids=["a death", "a request"])
def test_what_a_turn_folds_and_follows_it_does_not_decide_too(
    rig: Counted, happens: Callable[[Rig], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[tuple[float, float, float]] = []
    machine, followed = rig.machine, [0]
    follow, take = machine._following[0].follow, Agenda.take

    def following(changes: Changes, out: Outbox) -> None:
        followed[0] = sum(map(len, changes.partitions.values()))
        follow(changes, out)

    def taking(agenda: Agenda, most: int, *busy: Container[TopicName], **rest: Any) -> list[Due]:
        folded = machine._queue.handed_out / BUDGET.folded
        shares.append((min(folded, 1.0), followed[0] / BUDGET.followed, most / BUDGET.decided))
        return take(agenda, most, *busy, **rest)

    monkeypatch.setattr(machine._following[0], "follow", following)
    monkeypatch.setattr(Agenda, "take", taking)

    happens(rig)
    rig.run()

    assert max(map(sum, shares)) <= 1 + 2 * LEAST_LEFT
    assert max(decided for _, _, decided in shares) > 0.9
    assert LEAST_LEFT - 0.01 <= min(decided for _, _, decided in shares) < 0.5


def test_of_every_kind_of_work_a_turn_may_do_a_part() -> None:
    left = TurnBudget(folded=100, followed=10, greeted=10, decided=1, requested=10).after(folded=500, followed=50)

    assert (left.followed, left.greeted, left.decided, left.requested) == (3, 3, 1, 10)
    assert TurnBudget().after(folded=0) == TurnBudget()


def test_requests_of_many_parts_that_come_at_once_are_opened_one_after_the_other(rig: Counted) -> None:
    leader = rig.brokers[0]
    led = [TopicReference(rig.topic_name(t)) for t in range(SHAPE.topics)]
    proposals = tuple(IsrProposal(topic, PartitionId(0), LeaderEpoch(3), 0, rig.replicas_of(0)) for topic in led)
    rig.forget_the_most()

    calls = [rig.ask(AlterPartition(leader, rig.epoch_of(leader), proposals)) for _ in range(20)]
    rig.run()

    assert len(proposals) <= rig.opened <= BUDGET.folded + len(proposals)
    assert all(call in rig.replies for call in calls)


def test_a_broker_that_returns_is_sent_everything_once_in_parts(rig: Counted) -> None:
    rig.lose(rig.brokers[0])
    rig.run()
    rig.forget_what_was_heard()
    rig.forget_the_most()

    _return(rig)
    rig.run()

    assert rig.sent <= 2 * BUDGET.followed + 2 * BUDGET.greeted
    hosted = sum(rig.brokers[0] in rig.replicas_of(i) for i in range(SHAPE.partitions))
    assert SHAPE.partitions <= rig.heard_by_broker()[rig.brokers[0]] <= SHAPE.partitions + hosted


def test_a_broker_that_returns_hears_of_no_part_of_a_topic_first_whatever_changes_meanwhile(rig: Counted) -> None:
    fresh, dying = rig.brokers[0], rig.brokers[2]
    rig.lose(fresh)
    rig.run()
    first: dict[TopicName, int] = {}

    def told(tell: Tell) -> None:
        if tell.broker == fresh and isinstance(tell.command, UpdateMetadata):
            for name, count in Counter(seen.topic for seen in tell.command.partitions).items():
                first.setdefault(name, count)

    rig.on_told = told
    _return(rig)
    rig.lose(dying)
    rig.run()

    assert len(first) == SHAPE.topics
    assert set(first.values()) == {SHAPE.partitions_per_topic}


def test_a_long_list_of_moves_takes_several_turns_and_is_answered_once(rig: Counted) -> None:
    _move(rig)
    rig.run()
    turns = rig.storm.turns

    call = rig.ask(ListReassignments(None))
    rig.run()

    reply = rig.replies[call]
    assert len(reply.moves) == SHAPE.partitions  # type: ignore[union-attr]
    assert rig.storm.turns - turns >= SHAPE.partitions // BUDGET.measured


def test_facts_of_one_event_are_folded_in_several_turns_and_followed_together() -> None:
    rig = Counted()
    for event in rig.everything():
        rig.emit(event)
    rig.run()
    facts = tuple(rig.topic_facts(WIDE, 0, 400, rig.next_zxid()))

    first = rig.machine.turn((Observed(facts),), rig.now)
    assert [type(effect).__name__ for effect in first] == ["Wake"]
    assert WIDE in rig.machine._cluster.topics
    assert not any(isinstance(effect, (Tell, Commit, Answer)) for effect in first)


def test_many_topics_are_deleted_bit_by_bit(rig: Counted) -> None:
    rig.forget_the_most()

    call = _delete(rig, *map(rig.topic_name, range(SHAPE.topics)))
    rig.run(5.0)

    assert {result.error for result in rig.replies[call].results} == {ErrorCode.NONE}  # type: ignore[union-attr]
    assert not rig.machine._cluster.topics
    assert 0 < rig.sent <= 2 * BUDGET.deleted + 2 * BUDGET.followed
    assert 0 < rig.written <= 4 * (BUDGET.decided + SLACK)


def test_a_wide_topic_is_deleted_bit_by_bit_and_goes_last(rig: Counted) -> None:
    _read_wide(rig)
    rig.run()
    rig.forget_the_most()

    _delete(rig, WIDE)
    rig.run(5.0)

    assert WIDE not in rig.machine._cluster.topics
    assert 0 < rig.sent <= 400  # all its partitions once, when it is gone
    assert 0 < rig.written <= 2 * BUDGET.deleted + 5


def test_a_broker_that_returns_hears_which_topics_are_being_deleted_bit_by_bit(rig: Counted) -> None:
    first, last = rig.brokers[0], rig.brokers[-1]
    rig.lose(first)
    rig.run()
    _delete(rig, *map(rig.topic_name, range(SHAPE.topics)))
    rig.run(5.0)
    assert len(rig.machine._cluster.topics) == SHAPE.topics
    rig.lose(last)
    rig.run()
    rig.forget_what_was_heard()
    rig.forget_the_most()

    rig.observe([rig.registration(last, rig.next_zxid())])
    rig.run()

    assert {broker: heard for broker, heard in rig.heard_by_broker().items() if heard} == {last: SHAPE.partitions}
    assert rig.sent <= 2 * BUDGET.deleted + SHAPE.partitions_per_topic
    _return(rig)
    rig.run(5.0)
    assert not rig.machine._cluster.topics


def test_many_moves_of_one_topic_are_written_bit_by_bit(rig: Counted) -> None:
    _read_wide(rig)
    rig.run()
    begun: list[int] = []
    moving = rig.machine._cluster.moving
    rig.on_told = lambda _: begun.append(len(moving.get(WIDE, ())))

    ats = (TopicPartition(WIDE, PartitionId(n)) for n in range(400))
    call = rig.ask(
        AlterReassignments(tuple(PartitionReassignment(at, rig.replicas_of(at.partition + 3)) for at in ats))
    )
    rig.run()

    assert {result.error for result in rig.replies[call].results} == {ErrorCode.NONE}  # type: ignore[union-attr]
    assert len(moving[WIDE]) == 400
    steps = sorted(set(begun))
    assert steps[0] <= BUDGET.requested
    assert all(later - earlier <= BUDGET.requested for earlier, later in pairwise(steps))


def test_parts_of_a_request_that_are_refused_do_not_keep_the_others_waiting(rig: Counted) -> None:
    _read_wide(rig)
    rig.run()

    ats = (TopicPartition(WIDE, PartitionId(n)) for n in range(400))
    call = rig.ask(AlterReassignments(tuple(PartitionReassignment(at, (BrokerId(77),)) for at in ats)))
    rig.run()

    errors = [result.error for result in rig.replies[call].results]  # type: ignore[union-attr]
    assert errors == [ErrorCode.INVALID_REPLICA_ASSIGNMENT] * 400


def test_a_very_long_request_is_taken_in_bit_by_bit_and_answered_for_each_of_its_parts(
    rig: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_requests, "TAKEN_IN_AT_ONCE", 7)
    ats = [TopicPartition(rig.topic_name(t), PartitionId(n)) for t in range(10) for n in range(10)]
    wanted = tuple(PartitionReassignment(at, (BrokerId(77),)) for at in ats)
    turns = rig.storm.turns

    call = rig.ask(AlterReassignments(wanted))
    rig.run()

    reply = rig.replies[call]
    assert isinstance(reply, ReassignmentsAltered)
    assert [result.topic_partition for result in reply.results] == ats
    assert rig.storm.turns - turns >= len(ats) // 14


def test_a_request_whose_time_ends_while_it_is_taken_in_is_answered_for_each_of_its_parts() -> None:
    requests, call = OpenRequests(MutationQuotas(Quotas(), 11.0)), CallId(1)
    ats = [TopicPartition(WIDE, PartitionId(n)) for n in range(5)]
    request = AlterReassignments(tuple(PartitionReassignment(at, (BrokerId(1),)) for at in ats))
    items = (Item(call, n, w.topic_partition, w) for n, w in enumerate(request.reassignments))
    out = Outbox(0.0, {call: request})

    requests.open_bit_by_bit(call, request, items, len(ats), out)
    assert [item.at for item in requests.go_on(call, 2)] == ats[:2]
    requests.give_up(call, out)

    (answer,) = (effect for effect in out.effects if isinstance(effect, Answer))
    assert isinstance(answer.reply, ReassignmentsAltered)
    assert [(r.topic_partition, r.error) for r in answer.reply.results] == [
        (at, ErrorCode.REQUEST_TIMED_OUT) for at in ats
    ]
    assert requests.go_on(call, 2) == []


def test_requests_that_name_one_topic_very_often_leave_none_of_their_parts_behind(rig: Counted) -> None:
    calls = []
    for n in range(3):
        at = TopicPartition(rig.topic_name(0), PartitionId(n % SHAPE.partitions_per_topic))
        calls += [
            rig.ask(AlterReassignments((PartitionReassignment(at, rig.replicas_of(index % 6)),))) for index in range(60)
        ]

    rig.run()

    assert all(call in rig.replies for call in calls)


def test_a_created_topic_is_folded_bit_by_bit(rig: Counted) -> None:
    rig.forget_the_most()

    call = rig.ask(CreateTopics((NewTopic(WIDE, 400, 3),)))
    rig.run()

    assert [result.error for result in rig.replies[call].results] == [ErrorCode.NONE]  # type: ignore[union-attr]
    assert rig.folded <= BUDGET.folded + SLACK
    assert all(held.state is not None for held in rig.machine._cluster.topics[WIDE].partitions.values())


def test_topics_with_many_partitions_are_created_a_few_a_turn(rig: Counted) -> None:
    rig.forget_the_most()

    rig.ask(CreateTopics(tuple(NewTopic(TopicName(f"new-{n}"), 80, 3) for n in range(20))))
    rig.run()

    assert len(rig.machine._cluster.topics) == SHAPE.topics + 20
    assert rig.written <= 4 * (BUDGET.decided + SLACK)


def test_what_a_broker_says_of_many_replicas_is_taken_in_bit_by_bit(rig: Counted) -> None:
    _move(rig)
    rig.run()
    rig.run(20.0)
    progress = rig.machine._serving[ListReassignments]._progress  # type: ignore[attr-defined]
    asked = tuple(progress._stages)
    broker = rig.brokers[0]
    progress._asked[broker] = (rig.now, asked)
    sizes = {at: ReplicaSize(7) for at in asked}

    turns = 0
    rig.emit(LogDirsDescribed(broker, rig.epoch_of(broker), sizes))
    while rig._queue:
        rig._turn()
        turns += 1

    assert turns >= len(asked) // BUDGET.measured
    assert {progress._transfers._sizes[at][broker] for at in asked} == {7}


def test_settings_are_read_once_for_all_partitions_of_a_topic_that_need_them() -> None:
    """Partitions that no one can lead come first, and as many as a turn decides."""
    play = Play("brokers 1,2", "topic orders 0=1 1=1 2=1 3=1,2 4=1,2", "state orders-3 isr=1", "state orders-4 isr=1")
    play.do("config orders unclean.leader.election.enable=true")
    play.theatre.settings["budget"] = TurnBudget(decided=2)
    play.do("elect")

    lines = play.do("broker 1 dies")

    assert len(some(lines, "allows 2: records may be lost")) == 2
    config = TopicConfigAddress(TopicName("orders"))
    assert sum(config in read.addresses for read in play.theatre.reads) <= 3  # each asks, unless the answer is there


def test_more_partitions_than_a_znode_holds_are_refused_before_they_are_placed(rig: Counted) -> None:
    new = rig.ask(CreateTopics((NewTopic(WIDE, 150_000, 3),)))
    more = rig.ask(CreatePartitions((Growth(rig.topic_name(0), 150_000),)))
    rig.run()

    for call in (new, more):
        (result,) = rig.replies[call].results  # type: ignore[union-attr]
        assert result.error is ErrorCode.INVALID_PARTITIONS
        assert "raise jute.maxbuffer" in str(result.message)  # type: ignore[union-attr]
    assert rig.written == 1  # what was written at the beginning
