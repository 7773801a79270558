"""Which broker gets the next producer ids, and may their block be written now?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Answer, Commit, Create, Effect, Notice, Set, Write
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import ProducerIdsAllocated
from controller.core.messages.requests import AllocateProducerIds, Caller
from controller.core.single_znodes.producer_ids import ProducerIds
from controller.core.transactions.back_off import AT_ONCE
from controller.core.transactions.owner import TryAgain
from tests.unit.core.builders import Term
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import BrokerEpoch, BrokerId, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.producer_ids import HIGHEST_PRODUCER_ID, ProducerIdBlock, ProducerIdBlockAddress, decode

AT = ProducerIdBlockAddress()


def held(last: int, zxid: int = 50, version: int = 4) -> Fact:
    """The znode after someone took the block that ends here."""
    return present(
        AT, ProducerIdBlock(BrokerId(9), last - 999, last), Stat(Zxid(10), Zxid(zxid), ZnodeVersion(version))
    )


class Desk(Term):
    """The duty, with a ZooKeeper that does what the test says."""

    def __init__(self, live: str, *facts: Fact) -> None:
        super().__init__(live)
        self.ids = ProducerIds(self.shared)
        self.commit: Commit | None = None
        self.fold(*facts)

    def ask(self, ask: int, broker: int, epoch: int | None = None) -> None:
        of = self.cluster.brokers[BrokerId(broker)].epoch if epoch is None else BrokerEpoch(epoch)
        request = AllocateProducerIds(BrokerId(broker), of)
        self.unanswered[CallId(ask)] = request
        self.ids.admit(Asked(CallId(ask), request, Caller("PLAINTEXT", "127.0.0.1")), self.out())

    def turn(self) -> tuple[list[Effect], Write | None]:
        """What is said, and what is written."""
        effects = self.propose(self.ids)
        said: list[Effect] = [effect for effect in effects if not isinstance(effect, Commit)]
        if len(said) == len(effects):
            return said, None
        (self.commit,) = (effect for effect in effects if isinstance(effect, Commit))
        (write,) = self.commit.writes
        return said, write

    def written(self) -> list[Effect]:
        assert self.commit is not None
        return self.accept(self.commit)

    def failed(self, *seen: Fact) -> list[Effect]:
        assert self.commit is not None
        return self.refuse(self.commit, *seen)


def given(ask: int, first: int) -> Answer:
    return Answer(ask, ProducerIdsAllocated(first, 1000))


def refused(ask: int, error: ErrorCode) -> Answer:
    return Answer(ask, ProducerIdsAllocated(error=error))


def test_one_block_is_written_at_a_time_and_each_broker_waits_for_its_own() -> None:
    desk = Desk("1,2", held(4999))
    desk.ask(1, broker=1)
    desk.ask(2, broker=2)

    assert desk.turn() == ([], Set(AT, ProducerIdBlock(1, 5000, 5999), 4))
    assert desk.turn() == ([], None)
    assert desk.written() == [given(1, 5000)]
    assert desk.turn() == ([], Set(AT, ProducerIdBlock(2, 6000, 6999), 5))
    assert desk.written() == [given(2, 6000)]
    assert desk.turn() == ([], None)


def test_after_a_failure_nothing_is_written_before_the_znode_was_seen_again() -> None:
    desk = Desk("1", held(4999))
    desk.ask(1, broker=1)
    desk.turn()

    desk.failed()
    assert desk.turn() == ([], None)
    desk.read(held(8999, zxid=60, version=9))

    assert desk.turn() == ([], Set(AT, ProducerIdBlock(1, 9000, 9999), 9))


def test_a_block_whose_outcome_was_unknown_goes_to_no_broker_even_if_it_was_written() -> None:
    desk = Desk("1", held(4999))
    desk.ask(1, broker=1)
    desk.turn()

    desk.failed(held(5999, zxid=60, version=5))

    assert desk.turn() == ([], Set(AT, ProducerIdBlock(1, 6000, 6999), 5))


def test_a_znode_that_is_gone_when_the_write_comes_is_created() -> None:
    desk = Desk("1", held(4999))
    desk.ask(1, broker=1)
    desk.turn()

    desk.failed(absent(AT, Zxid(60)))

    assert desk.turn() == ([], Create(AT, ProducerIdBlock(1, 0, 999)))


def test_a_broker_that_died_while_it_waited_gets_none_and_holds_no_one_up() -> None:
    desk = Desk("1,2", held(4999))
    desk.ask(1, broker=1)
    desk.ask(2, broker=2)
    desk.turn()

    desk.failed(absent(BrokerAddress(BrokerId(1)), Zxid(55)), held(4999, zxid=56, version=5))

    said, write = desk.turn()
    assert said == [refused(1, ErrorCode.BROKER_ID_NOT_REGISTERED)]
    assert write == Set(AT, ProducerIdBlock(2, 5000, 5999), 5)


def test_a_request_of_a_brokers_former_life_is_refused() -> None:
    desk = Desk("3", held(4999))
    desk.ask(1, broker=3, epoch=2)

    assert desk.turn() == ([refused(1, ErrorCode.STALE_BROKER_EPOCH)], None)


def test_the_block_that_a_kraft_controller_recorded_is_followed_by_the_next() -> None:
    """Its broker is -1: after a migration to KRaft was rolled back, every broker needs new producer ids."""
    recorded = decode(b'{"version":1,"broker":-1,"block_start":"4000","block_end":"4999"}')
    desk = Desk("1,2", present(AT, recorded, Stat(Zxid(10), Zxid(50), ZnodeVersion(4))))
    desk.ask(1, broker=1)

    assert desk.turn() == ([], Set(AT, ProducerIdBlock(1, 5000, 5999), 4))


@pytest.mark.parametrize("value", [Malformed("no JSON", 3), ProducerIdBlock(BrokerId(9), 0, HIGHEST_PRODUCER_ID)])
def test_where_no_block_can_follow_every_broker_is_refused_and_the_operator_is_notified_once(
    value: Malformed | ProducerIdBlock,
) -> None:
    desk = Desk("1,2", present(AT, value, Stat(Zxid(10), Zxid(50), ZnodeVersion(4))))
    desk.ask(1, broker=1)
    desk.ask(2, broker=2)

    said, write = desk.turn()

    assert write is None
    assert [e for e in said if isinstance(e, Answer)] == [refused(n, ErrorCode.UNKNOWN_SERVER_ERROR) for n in (1, 2)]
    assert len([e for e in said if isinstance(e, Notice)]) == 1


def test_a_write_that_is_never_taken_is_given_up_for_all_who_wait_until_it_is_tried_again() -> None:
    desk = Desk("1,2", held(4999))
    desk.ask(1, broker=1)
    desk.ask(2, broker=2)
    for _ in range(AT_ONCE + 1):
        assert desk.turn() == ([], Set(AT, ProducerIdBlock(1, 5000, 5999), 4))
        desk.failed(held(4999))

    said, write = desk.turn()

    assert write is None
    assert [effect for effect in said if isinstance(effect, Answer)] == [
        refused(1, ErrorCode.UNKNOWN_SERVER_ERROR),
        refused(2, ErrorCode.UNKNOWN_SERVER_ERROR),
    ]
    (notice,) = (effect for effect in said if isinstance(effect, Notice))
    assert AT.path in notice.text

    desk.ask(3, broker=1)
    assert desk.turn() == ([refused(3, ErrorCode.UNKNOWN_SERVER_ERROR)], None)
    desk.ask(4, broker=2)
    (subject,) = desk.transactions._waiting
    desk.transactions.resume(TryAgain(subject), desk.out())
    assert desk.turn() == ([], Set(AT, ProducerIdBlock(2, 5000, 5999), 4))
