"""All that follows for the partitions of brokers that come and go is done bit by bit, and nothing is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.core.brokers.duty import Brokers
from controller.core.brokers.passes import End, HostedPasses, Visit, _Pass
from controller.core.messages.commands import UpdateMetadata
from controller.core.messages.effects import Answer, Commit, Set, Tell, Wake
from controller.core.messages.events import Again, Asked, CallId, Observed, Woke
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import ShutdownPermitted
from controller.core.messages.requests import Caller, ControlledShutdown, ElectLeaders
from controller.core.settings import TurnBudget
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig
from tests.unit.core.builders import registration
from tests.unit.traps.play import Play, some
from zk_layout.facts import absent
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState

SHAPE = Shape(30, 10, 5)
HOSTED = 25
BUDGET = TurnBudget(folded=120, followed=60, decided=30, hosted=HOSTED)
FIRST, SECOND = BrokerId(1), BrokerId(2)
A, B = TopicName("a"), TopicName("b")


def numbers(*some_: int) -> dict[PartitionId, None]:
    return {PartitionId(n): None for n in some_}


def out() -> Outbox:
    return Outbox(0.0, {})


class Notes:
    """What passes visit, and their ends."""

    def __init__(self) -> None:
        self.visited: list[tuple[TopicName, int]] = []
        self.ends = 0

    def visit(self, name: TopicName, numbers: Sequence[PartitionId]) -> None:
        self.visited += [(name, number) for number in numbers]

    def end(self, _: Outbox) -> None:
        self.ends += 1


# ---- passes ---------------------------------------------------------------------------------------------------------


def test_a_turn_visits_what_its_budget_allows_and_asks_for_another_while_there_is_more() -> None:
    passes, notes = HostedPasses({FIRST: {A: numbers(0, 1, 2), B: numbers(0, 1)}}, 4), Notes()
    passes.begin(FIRST, notes.visit, notes.end)

    turn = out()
    passes.go_on(turn)
    assert notes.visited == [(A, 0), (A, 1), (A, 2)]
    assert turn.effects == [Wake(Again(), 0.0)]
    assert passes.is_under_way(FIRST)
    passes.go_on(out())
    assert len(notes.visited) == 3  # no more in this turn

    passes.renew()
    last = out()
    passes.go_on(last)
    assert notes.visited[3:] == [(B, 0), (B, 1)]
    assert (notes.ends, passes.has_more, last.effects) == (1, False, [])


def test_a_pass_goes_round_what_its_broker_still_hosts() -> None:
    hosted = {FIRST: {A: numbers(0, 1), B: numbers(0)}, SECOND: {A: numbers(7)}}
    passes, notes = HostedPasses(hosted, 3), Notes()
    passes.begin(FIRST, notes.visit, notes.end)
    passes.begin(SECOND, notes.visit, notes.end)
    passes.begin(BrokerId(9), notes.visit, notes.end)

    passes.go_on(out())
    del hosted[FIRST][B]
    while passes.has_more:
        passes.renew()
        passes.go_on(out())

    assert (notes.visited, notes.ends) == ([(A, 0), (A, 1), (A, 7)], 3)


def test_a_pass_that_waits_for_its_turn_does_for_all_who_ask_for_it_and_visits_what_is_hosted_then() -> None:
    hosted = {FIRST: {A: numbers(0, 1)}, SECOND: {A: numbers(7)}}
    passes, notes = HostedPasses(hosted, 2), Notes()
    passes.begin_once(FIRST, notes.visit)
    passes.begin_once(SECOND, notes.visit)
    passes.go_on(out())
    assert notes.visited == [(A, 0)]

    hosted[SECOND][B] = numbers(3)
    passes.begin_once(FIRST, notes.visit)  # its pass is under way, and does not return to what it has visited
    passes.begin_once(SECOND, notes.visit)
    while passes.has_more:
        passes.renew()
        passes.go_on(out())

    assert notes.visited == [(A, 0), (A, 1), (A, 7), (B, 3), (A, 0), (A, 1)]


def test_a_pass_that_is_begun_ahead_comes_before_one_that_is_under_way() -> None:
    hosted = {FIRST: {A: numbers(0, 1, 2)}, SECOND: {B: numbers(7)}}
    passes, notes = HostedPasses(hosted, 2), Notes()
    passes.begin(FIRST, notes.visit, notes.end)
    passes.go_on(out())
    assert notes.visited == [(A, 0)]

    passes.begin_ahead(SECOND, notes.visit)
    assert passes.is_under_way(SECOND)
    while passes.has_more:
        passes.renew()
        passes.go_on(out())

    assert notes.visited == [(A, 0), (B, 7), (A, 1), (A, 2)]
    assert notes.ends == 1


# ---- storms ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def rig() -> Rig:
    rig = Rig(SHAPE, is_encoding=False, budget=BUDGET)
    for event in rig.everything():
        rig.emit(event)
    rig.run()
    return rig


def the_brokers(rig: Rig) -> Brokers:
    return next(duty for duty in rig.machine._duties if isinstance(duty, Brokers))


def examined(rig: Rig, most: list[int]) -> None:
    """Note how many partitions each turn visits because of brokers."""
    passes = the_brokers(rig)._passes
    a_pass = passes._pass

    def counted(broker: BrokerId, visit: Visit, end: End) -> _Pass:
        def visit_(name: TopicName, some_: Sequence[PartitionId]) -> None:
            most[-1] += len(some_)
            visit(name, some_)

        return a_pass(broker, visit_, end)

    passes._pass = counted  # type: ignore[method-assign]
    rig.turned = lambda effects: most.append(0)  # type: ignore[method-assign]  # noqa: ARG005


def test_every_broker_dies_and_returns_and_no_turn_looks_at_more_than_its_budget(rig: Rig) -> None:
    most = [0]
    examined(rig, most)

    for broker in rig.brokers:
        rig.lose(broker)
    rig.run(5.0)
    hosted = SHAPE.partitions * SHAPE.replication
    assert sum(most) == 2 * hosted  # what they led, and then everything
    assert max(most) <= HOSTED
    assert rig.machine.figures()["offline_partitions"] == SHAPE.partitions

    for broker in rig.brokers:
        rig.observe([rig.registration(broker, rig.next_zxid())])
    rig.run(5.0)
    assert sum(most) == 3 * hosted
    assert max(most) <= HOSTED
    assert rig.machine.figures()["offline_partitions"] == 0
    assert rig.machine.figures()["live_brokers"] == SHAPE.brokers


def test_a_broker_that_died_is_not_back_before_all_it_hosted_was_looked_at_however_much_time_passes(rig: Rig) -> None:
    first = rig.brokers[0]
    rig.lose(first)
    rig.observe([rig.registration(first, rig.next_zxid())])

    rig._turn()
    assert first not in rig.machine._cluster.brokers
    turns = 1
    while rig._queue and first not in rig.machine._cluster.brokers:
        rig.now += 60.0
        rig._turn()
        turns += 1

    assert first in rig.machine._cluster.brokers
    assert turns > len(rig.machine._cluster.hosted[first]) * SHAPE.partitions_per_topic // 2 // HOSTED


def test_a_broker_that_shuts_down_is_answered_when_nothing_is_led_by_it_any_more(rig: Rig) -> None:
    first = rig.brokers[0]
    call = rig.ask(ControlledShutdown(first, rig.epoch_of(first)))
    rig.run(1.0)

    assert rig.replies[call] == ShutdownPermitted(())
    assert all(
        held.state is not None and held.state.leader != first
        for topic in rig.machine._cluster.topics.values()
        for held in topic.partitions.values()
    )


def test_every_broker_shuts_down_at_once_and_each_is_answered(rig: Rig) -> None:
    calls = [rig.ask(ControlledShutdown(broker, rig.epoch_of(broker))) for broker in rig.brokers]
    rig.run(30.0)

    remaining = [rig.replies[call] for call in calls]
    assert all(isinstance(reply, ShutdownPermitted) for reply in remaining)
    left = [at for reply in remaining if isinstance(reply, ShutdownPermitted) for at in reply.remaining]
    assert len(left) == len(set(left)) == SHAPE.partitions  # no other broker can lead them


def test_all_preferred_leaders_are_elected_bit_by_bit_for_a_client_that_names_none(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.core.clients.long_requests.TAKEN_IN_AT_ONCE", 7)
    first = rig.brokers[0]
    rig.observe([rig.registration(first, rig.next_zxid())])
    rig.run(5.0)
    led_by_others = rig.machine.figures()["preferred_replica_imbalance"]
    assert led_by_others

    call = rig.ask(ElectLeaders(None))
    turns = rig.storm.turns
    rig.run(5.0)

    results = rig.replies[call].results  # type: ignore[union-attr]
    assert len(results) == led_by_others
    assert rig.storm.turns - turns >= led_by_others // 7


def test_brokers_that_come_together_are_looked_for_places_of_controllers_ids_together() -> None:
    others = [f"topic a-{n} 0=1,2,3" for n in range(5)]
    play = small("controllers 101", *others, "topic orders 0=1,100,101", "elect", hosted=2)
    machine = play.theatre.machine
    assert machine is not None
    come = Observed(tuple(registration(BrokerId(n), zxid=10_000 + n) for n in (1, 2, 3)))

    effects = machine.turn([come], play.theatre.now)
    told = list(effects)
    while any(isinstance(effect, Wake) and isinstance(effect.alarm, Again) for effect in effects):
        effects = machine.turn([Woke(Again())], play.theatre.now)
        told += effects

    updates = [e.command for e in told if isinstance(e, Tell) and e.broker == FIRST]
    views = [view for command in updates if isinstance(command, UpdateMetadata) for view in command.partitions]
    # In its full update, and once for each of its replicas.
    assert len([view for view in views if view.topic == "orders"]) == 1 + 3


# ---- safety ---------------------------------------------------------------------------------------------------------


def small(*lines: str, hosted: int = 1) -> Play:
    play = Play()
    play.theatre.settings["budget"] = TurnBudget(hosted=hosted)
    play.do(*lines)
    return play


def test_no_leader_epoch_rises_twice_for_two_replicas_of_a_partition_that_die_together() -> None:
    topics = [f"topic orders-{n} 0=1,2,3 1=1,2,3" for n in range(5)]
    play = small("brokers 1,2,3", *topics, "elect", "time +1s")

    lines = play.do("broker 2 dies", "broker 3 dies", "time +1s")
    play.do("broker 2 returns", "broker 3 returns", "time +1s")

    for n in range(5):
        for number in range(2):
            path = f"/brokers/topics/orders-{n}/partitions/{number}/state"
            assert 1 <= len(some(lines, f"set {path}")) <= 2, lines
            assert '"leader_epoch":3' not in (play.data(path) or ""), play.data(path)


def test_an_election_on_request_takes_a_dead_broker_out_before_its_pass_reaches_the_partition() -> None:
    others = [f"topic a-{n} 0=2,3,1" for n in range(5)]
    play = small("brokers 1,2,3", *others, "topic orders 0=3,2,1", "state orders-0 leader=2 isr=2,1,3", "elect")
    machine = play.theatre.machine
    assert machine is not None
    gone = absent(BrokerAddress(BrokerId(2)), Zxid(10_000))
    asked = Asked(
        CallId(1),
        ElectLeaders((TopicPartition(TopicName("orders"), PartitionId(0)),)),
        Caller("PLAINTEXT", "127.0.0.1"),
    )

    effects = machine.turn([Observed((gone,)), asked], play.theatre.now)

    commits = [effect for effect in effects if isinstance(effect, Commit)]
    assert [w for c in commits for w in c.why] == ["on request, 3, the preferred leader of orders-0, takes over from 2"]
    (state,) = [w.value for c in commits for w in c.writes if isinstance(w, Set)]
    assert isinstance(state, PartitionState)
    assert (state.leader, state.isr) == (3, (1, 3))


def test_a_shutdown_that_was_not_noted_everywhere_when_its_broker_died_counts_as_none() -> None:
    rig = Rig(SHAPE, is_encoding=False, budget=BUDGET)
    for event in rig.everything():
        rig.emit(event)
    rig.run()
    first = rig.brokers[0]
    brokers = the_brokers(rig)
    lives = brokers._former_lives
    shutdown = Asked(CallId(1_000), ControlledShutdown(first, rig.epoch_of(first)), Caller("CONTROLLER", "127.0.0.1"))

    effects = rig.machine.turn([shutdown], rig.now)

    assert not [effect for effect in effects if isinstance(effect, Answer)]
    assert brokers._passes.is_under_way(first)
    assert lives.take_followed(first) is None


def test_no_replica_of_a_returning_broker_joins_before_its_former_life_is_outdated_everywhere(rig: Rig) -> None:
    returning = rig.machine._cluster.returning
    late = BrokerId(rig.brokers[-1])
    met = the_brokers(rig)._met
    rig.lose(late)
    rig.run(5.0)
    del met[late]  # as if it had died before this term

    rig.observe([rig.registration(late, rig.next_zxid())])
    rig._turn()
    assert late in rig.machine._cluster.brokers
    assert late in returning
    rig.run()
    assert late not in returning
