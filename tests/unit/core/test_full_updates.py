"""Do brokers that come get every partition once, whenever they come?"""

from __future__ import annotations

from collections.abc import Container

from controller.core.announcing.full_updates import FullUpdates
from controller.core.brokers.duty import Brokers
from controller.core.messages.commands import LeaderAndIsr, UpdateMetadata
from tests.unit.core.builders import Term, ids, state
from tests.unit.traps.play import Play
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import BrokerId, PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

STAT = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
SHAPES = {TopicName("narrow"): 1, TopicName("wide"): 5}
EVERY = {(name, number) for name, count in SHAPES.items() for number in range(count)}


def two_topics() -> Term:
    term = Term("1,2")
    for name, count in SHAPES.items():
        partitions = {PartitionId(n): Assignment(ids("1,2")) for n in range(count)}
        term.fold(present(TopicAddress(name), Topic(partitions, None), STAT))
    return term


def full_updates() -> FullUpdates:
    return FullUpdates(two_topics().cluster)


def heard(
    round_: FullUpdates, broker: int, most: int, incomplete: Container[TopicName] = ()
) -> list[tuple[TopicName, PartitionId]]:
    """What a broker hears of in a turn."""
    taken = list(round_.take(incomplete, most))
    of_broker = [part.partitions for part in taken if BrokerId(broker) in part.brokers]
    return [(name, n) for partitions in of_broker for name, numbers in partitions.items() for n in numbers]


def test_a_broker_that_comes_gets_every_partition_once() -> None:
    round_ = full_updates()
    round_.join([BrokerId(1)])

    every = [partition for _ in range(20) for partition in heard(round_, 1, most=3)]

    assert len(every) == len(EVERY)
    assert set(every) == EVERY
    assert not round_.has_more(())


def test_a_broker_that_comes_while_a_topic_is_sent_in_parts_gets_all_of_it() -> None:
    round_ = full_updates()
    round_.join([BrokerId(1)])
    begun = heard(round_, 1, most=4)
    assert 0 < sum(name == "wide" for name, _ in begun) < SHAPES[TopicName("wide")]

    round_.join([BrokerId(2)])

    assert set(heard(round_, 2, most=100)) == EVERY


def test_a_topic_that_is_deleted_while_it_waits_to_be_read_is_sent_to_no_broker() -> None:
    term = two_topics()
    round_ = FullUpdates(term.cluster)
    round_.join([BrokerId(1)])
    assert not heard(round_, 1, most=100, incomplete=SHAPES)

    term.fold(absent(TopicAddress(TopicName("narrow")), Zxid(11)))
    parts = list(round_.take((), 100))

    assert [list(part.partitions) for part in parts] == [list(part.whole) for part in parts] == [["wide"]]


def test_a_broker_without_a_topic_gets_all_its_partitions_at_once() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2 1=2,3 2=3,1 3=1,3 4=2,1 5=3,2", "elect")
    play.theatre.sent.clear()

    play.do("broker 3 bounces", "isr orders-2 1,3")

    told = [tell.command for tell in play.theatre.sent if tell.broker == BrokerId(3)]
    first = next(c.partitions for c in told if isinstance(c, UpdateMetadata) and c.partitions)
    assert [view.partition for view in first] == [0, 1, 2, 3, 4, 5]


def test_a_topic_that_is_first_seen_in_several_turns_is_sent_whole() -> None:
    term, name = Term("1,2"), TopicName("orders")
    brokers = Brokers(term.shared, term.memory.brokers)
    term.follow(brokers)
    partitions = {PartitionId(n): Assignment(ids("1,2")) for n in range(5)}
    term.fold(present(TopicAddress(name), Topic(partitions, None), STAT))
    term.fold(*(present(StateAddress(name, n), state(1, "1,2"), STAT) for n in partitions))

    metadata, led = [], []
    for _ in range(3):
        out, changes = term.out(), term.state.take_changes(2)
        brokers.amend(changes, out)
        brokers.follow(changes, out)
        brokers.announce(changes, out)
        to_one = [tell.command for tell in out.sent if tell.broker == BrokerId(1)]
        metadata.append([len(c.partitions) for c in to_one if isinstance(c, UpdateMetadata) and c.partitions])
        led.append(bool([c for c in to_one if isinstance(c, LeaderAndIsr)]))

    assert metadata == [[], [], [5]]
    assert led == [True, True, True]
