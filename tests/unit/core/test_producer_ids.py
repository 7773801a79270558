"""Which broker gets the next producer ids, and may their block be written now?"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.view import Cluster
from controller.core.effects import Answer, Create, Notice, Set, Write
from controller.core.errors import ErrorCode
from controller.core.producer_ids import TRIES, ProducerIds
from controller.core.replies import ProducerIdsAllocated
from controller.core.requests import AllocateProducerIds
from tests.unit.core.builders import cluster
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.producer_ids import ProducerIdBlock, ProducerIdBlockAddress

AT = ProducerIdBlockAddress()


def held(last: int, zxid: int = 50, version: int = 4) -> Fact:
    """The znode after somebody took the block that ends here."""
    return present(AT, ProducerIdBlock(9, last - 999, last), Stat(10, zxid, version))


class Desk:
    """The bookkeeping as the machine uses it, with a ZooKeeper that does what the test says."""

    def __init__(self, known: Cluster, *facts: Fact) -> None:
        self.cluster = known
        self.ids = ProducerIds(known)
        self.commits = 0
        for fact in facts:
            known.apply(fact)

    def ask(self, ask: int, broker: int) -> None:
        self.ids.queue(ask, AllocateProducerIds(broker, self.cluster.brokers[BrokerId(broker)].epoch))

    def turn(self) -> tuple[list[Answer | Notice], Write | None]:
        said = list(self.ids.refuse())
        found = self.ids.next_write()
        if found is None:
            return said, None
        self.commits += 1
        self.ids.reserve(self.commits)
        return said, found[0]

    def written(self, fact: Fact) -> Iterator[Answer]:
        self.cluster.apply(fact)
        return self.ids.accepted(self.commits)

    def failed(self, *seen: Fact) -> None:
        self.ids.failed(self.commits)
        for fact in seen:
            self.cluster.apply(fact)
            self.ids.saw(fact.address)


def given(ask: int, first: int) -> Answer:
    return Answer(ask, ProducerIdsAllocated(first, 1000))


def refused(ask: int, error: ErrorCode) -> Answer:
    return Answer(ask, ProducerIdsAllocated(error=error))


def test_one_block_is_written_at_a_time_and_each_broker_waits_for_its_own() -> None:
    desk = Desk(cluster("1,2"), held(4999))
    desk.ask(1, broker=1)
    desk.ask(2, broker=2)

    assert desk.turn() == ([], Set(AT, ProducerIdBlock(1, 5000, 5999), 4))
    assert desk.turn() == ([], None)
    assert list(desk.written(held(5999, zxid=51, version=5))) == [given(1, 5000)]
    assert desk.turn() == ([], Set(AT, ProducerIdBlock(2, 6000, 6999), 5))
    assert list(desk.written(held(6999, zxid=52, version=6))) == [given(2, 6000)]
    assert desk.turn() == ([], None)


def test_another_transaction_answers_nobody() -> None:
    desk = Desk(cluster("1"), held(4999))
    desk.ask(1, broker=1)
    desk.turn()

    assert list(desk.ids.accepted(77)) == []
    desk.ids.failed(77)

    assert list(desk.written(held(5999, zxid=51, version=5))) == [given(1, 5000)]


def test_after_a_failure_nothing_is_written_before_the_znode_was_seen_again() -> None:
    desk = Desk(cluster("1"), held(4999))
    desk.ask(1, broker=1)
    desk.turn()

    desk.failed()
    assert desk.turn() == ([], None)
    desk.failed(held(8999, zxid=60, version=9))

    assert desk.turn() == ([], Set(AT, ProducerIdBlock(1, 9000, 9999), 9))


def test_a_znode_that_is_gone_when_the_write_comes_is_created() -> None:
    desk = Desk(cluster("1"), held(4999))
    desk.ask(1, broker=1)
    desk.turn()

    desk.failed(absent(AT, 60))

    assert desk.turn() == ([], Create(AT, ProducerIdBlock(1, 0, 999)))


def test_a_broker_that_died_while_it_waited_gets_none_and_holds_nobody_up() -> None:
    desk = Desk(cluster("1,2"), held(4999))
    desk.ask(1, broker=1)
    desk.ask(2, broker=2)
    desk.turn()

    desk.failed(absent(BrokerAddress(1), 55), held(4999, zxid=56, version=5))

    said, write = desk.turn()
    assert said == [refused(1, ErrorCode.BROKER_ID_NOT_REGISTERED)]
    assert write == Set(AT, ProducerIdBlock(2, 5000, 5999), 5)


def test_a_request_of_a_brokers_former_life_is_refused() -> None:
    desk = Desk(cluster("3"), held(4999))
    desk.ids.queue(1, AllocateProducerIds(3, broker_epoch=2))

    assert desk.turn() == ([refused(1, ErrorCode.STALE_BROKER_EPOCH)], None)


def test_a_write_that_is_never_taken_is_given_up_for_one_broker_and_tried_again_for_the_next() -> None:
    desk = Desk(cluster("1,2"), held(4999))
    desk.ask(1, broker=1)
    desk.ask(2, broker=2)
    for _ in range(TRIES):
        assert desk.turn() == ([], Set(AT, ProducerIdBlock(1, 5000, 5999), 4))
        desk.failed(held(4999))

    said, write = desk.turn()

    answer, notice = said
    assert answer == refused(1, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert isinstance(notice, Notice)
    assert "has not taken the write" in notice.text
    assert write == Set(AT, ProducerIdBlock(2, 5000, 5999), 4)
