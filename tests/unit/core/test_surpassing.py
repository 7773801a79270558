"""A term with a lower epoch than partitions' states carry decides nothing, and says what the next one needs."""

from __future__ import annotations

import pytest

from controller.core.messages.effects import NOTICE_KINDS, Commit, Notice, StepDown, Tell, Wake
from controller.core.messages.events import Event, Loaded, Observed
from tests.unit.core.builders import EPOCH, OWN, registration
from tests.unit.core.test_intake import machine
from zk_layout.bounds import HIGHEST_SURPASSED_EPOCH
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ORDERS = TopicName("orders")
PATH = "/brokers/topics/orders/partitions"


def state(number: int, epoch: int, zxid: int = 5) -> Fact:
    held = PartitionState(BrokerId(1), LeaderEpoch(3), ControllerEpoch(epoch), (BrokerId(1),))
    return present(StateAddress(ORDERS, PartitionId(number)), held, Stat(Zxid(1), Zxid(zxid), ZnodeVersion(0)))


def loaded_with(*epochs: int) -> list[Event]:
    """A topic on brokers that are gone, so that there is much to decide."""
    topic = Topic({PartitionId(n): Assignment((BrokerId(1), BrokerId(2))) for n, _ in enumerate(epochs)})
    znode = present(TopicAddress(ORDERS), topic, Stat(Zxid(1), Zxid(1), ZnodeVersion(0)))
    states = tuple(state(number, epoch) for number, epoch in enumerate(epochs))
    live = tuple(registration(broker) for broker in (BrokerId(2), OWN))
    return [Observed((*live, znode, *states)), Loaded()]


@pytest.mark.parametrize("highest", [EPOCH + 1, EPOCH + 50, HIGHEST_SURPASSED_EPOCH])
def test_a_term_below_what_states_carry_ends_before_it_decides_anything(highest: int) -> None:
    term = machine()

    effects = term.turn(loaded_with(3, highest, 4), 0.0)

    reason = f"{PATH}/1/state carries controller epoch {highest}, and this term has {EPOCH}"
    assert [e for e in effects if not isinstance(e, Wake)] == [StepDown(reason, surpass=ControllerEpoch(highest))]
    assert term.turn([Loaded()], 1.0) == []


@pytest.mark.parametrize("highest", [EPOCH - 1, EPOCH])
def test_a_term_that_is_not_below_what_states_carry_leads(highest: int) -> None:
    """Its successor's epoch is above an equal one."""
    effects = machine().turn(loaded_with(3, highest, -1), 0.0)

    assert not [e for e in effects if isinstance(e, StepDown)]
    assert [e for e in effects if isinstance(e, Tell)]


def test_an_epoch_that_was_written_first_and_overwritten_since_counts_too() -> None:
    """The order in which facts arrive makes no difference."""
    facts = (state(0, EPOCH + 9, zxid=5), state(0, 2, zxid=6))

    for order in (facts, facts[::-1]):
        term = machine()
        assert [type(e) for e in term.turn([Observed(order), Loaded()], 0.0)] == [StepDown]


def test_a_state_that_is_gone_carries_nothing() -> None:
    gone = absent(StateAddress(ORDERS, PartitionId(0)), Zxid(9))

    assert StepDown not in map(type, machine().turn([Observed((registration(OWN), gone)), Loaded()], 0.0))


def test_an_epoch_out_of_reach_ends_no_term_and_is_named() -> None:
    term = machine()

    effects = term.turn(loaded_with(HIGHEST_SURPASSED_EPOCH + 1), 0.0)

    (notice,) = (e for e in effects if isinstance(e, Notice) and e.kind == "epoch out of reach")
    assert notice.kind in NOTICE_KINDS
    assert notice.text.startswith(f"{PATH}/0/state carries controller epoch {HIGHEST_SURPASSED_EPOCH + 1}, too high")
    assert [e for e in effects if isinstance(e, Commit | Tell)]
    assert StepDown not in map(type, effects)
