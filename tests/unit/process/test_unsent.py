"""When is a transaction answered that is never sent?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from controller.core.messages.effects import Commit, Set, operation
from controller.core.messages.events import CommitId, Conflicted
from controller.process import unsent
from controller.process.unsent import Unsent
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress

STATE = PartitionState(BrokerId(1), LeaderEpoch(1), ControllerEpoch(1), (BrokerId(1),))
ORDERS, OTHERS = (StateAddress(TopicName(name), PartitionId(0)) for name in ("orders", "others"))


def commit(number: int, address: StateAddress) -> Commit:
    return Commit(CommitId(number), (operation(Set(address, STATE, ZnodeVersion(3))),), ("because",))


def story(tell: Callable[[Unsent, list[Conflicted]], None]) -> None:
    async def told() -> None:
        answers: list[Conflicted] = []
        transactions = Unsent(answers.append)
        transactions.submit(commit(1, ORDERS))
        transactions.submit(commit(2, OTHERS))
        assert answers == []
        tell(transactions, answers)
        transactions.stop()

    asyncio.run(told())


def test_it_is_answered_when_its_topic_changes() -> None:
    def tell(transactions: Unsent, answers: list[Conflicted]) -> None:
        transactions.saw([present(ORDERS, STATE, Stat(Zxid(1), Zxid(9), ZnodeVersion(4)))])
        assert [(a.commit, a.address) for a in answers] == [(1, ORDERS)]
        transactions.saw([present(ORDERS, STATE, Stat(Zxid(1), Zxid(10), ZnodeVersion(5)))])
        assert (len(answers), transactions.count) == (1, 1)

    story(tell)


def test_all_are_answered_when_a_broker_comes_or_goes() -> None:
    def tell(transactions: Unsent, answers: list[Conflicted]) -> None:
        transactions.saw([absent(BrokerAddress(BrokerId(1)), Zxid(9))])
        assert [a.commit for a in answers] == [1, 2]
        assert transactions.count == 0

    story(tell)


def test_without_any_change_it_is_answered_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsent, "HOLD_S", 0.01)

    async def told() -> None:
        answers: list[Conflicted] = []
        transactions = Unsent(answers.append)
        transactions.submit(commit(1, ORDERS))
        while not answers:
            await asyncio.sleep(0.005)
        assert answers[0].reason == unsent.REASON

    asyncio.run(told())


def test_after_the_end_none_is_answered() -> None:
    def tell(transactions: Unsent, answers: list[Conflicted]) -> None:
        transactions.stop()
        transactions.saw([absent(BrokerAddress(BrokerId(1)), Zxid(9))])
        assert (answers, transactions.count) == ([], 0)

    story(tell)
