"""Does what cannot be done, or waits long, hold up anything else?"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.messages.effects import Answer, Connect, Effect, Set
from controller.core.messages.events import Asked, CallId, Committed, Event, Observed, Woke
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    IsrProposal,
    ListReassignments,
    Mode,
    PartitionReassignment,
    Request,
    TopicReference,
)
from controller.core.reassignment.legacy_znode import SUBJECT
from controller.core.settings import TurnBudget
from controller.core.transactions.owner import TryAgain
from tests.unit.core.builders import commits, ids, registration, state
from tests.unit.core.turns import CALLER, STAT, Turns, led, notices, path, topic
from tests.unit.traps.play import Play, some
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
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


def test_a_request_that_waits_keeps_no_decision_from_the_settings_it_needs() -> None:
    topic, state = "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "state orders-0 leader=1 isr=1 leader_epoch=1", "elect")
    play.do(f"refuse {topic}", "ask reassign orders-0 to=2,3")

    assert some(play.do("broker 1 dies"), f"set {state}", "leader=-1")
