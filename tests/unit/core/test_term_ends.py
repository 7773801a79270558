"""When is a term over, and what is finished before?"""

from __future__ import annotations

from controller.core.machine import Machine
from controller.core.messages.commands import LiveBroker
from controller.core.messages.effects import Drained, StepDown
from controller.core.messages.events import CommitId, Committed, Fenced, Observed, ResignationAsked
from tests.unit.core.builders import OWN, commits, registration
from tests.unit.core.test_intake import LOADED, machine
from tests.unit.traps.play import Play, some
from zk_layout.facts import absent
from zk_layout.ids import BrokerId, Zxid
from zk_layout.znodes.brokers import BrokerAddress


def loaded() -> Machine:
    """It has written what it writes at the beginning."""
    term = machine()
    for commit in commits(term.turn(LOADED, 0.0)):
        term.turn([Committed(commit.commit, Zxid(1_000 + commit.commit))], 0.0)
    assert term.snapshot().in_flight == 0
    return term


def test_who_has_nothing_under_way_is_drained_at_once_and_decides_nothing_any_more() -> None:
    term = loaded()

    assert Drained() in term.turn([ResignationAsked()], 1.0)
    assert term.turn([ResignationAsked()], 2.0) == []


def test_what_is_on_its_way_to_zookeeper_is_waited_for() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect", "hold reply")
    play.do("ask reassign orders-0 to=2,1")
    term = play.theatre.machine
    assert term is not None
    assert term.snapshot().in_flight == 1

    assert Drained() not in term.turn([ResignationAsked()], 1.0)
    effects = term.turn([play.theatre._held.popleft()], 2.0)
    (opening,) = commits(effects)  # its client still gets the id of its request
    assert Drained() not in effects

    assert Drained() in term.turn([Committed(opening.commit, Zxid(10_000))], 3.0)


def test_a_raised_controller_epoch_ends_it_and_nothing_is_decided_after_that() -> None:
    term = loaded()

    assert [type(effect) for effect in term.turn([Fenced(CommitId(9))], 1.0)] == [StepDown]
    assert term.turn([ResignationAsked()], 2.0) == []


def test_who_has_stepped_down_says_nothing_more() -> None:
    term = loaded()
    gone = Observed((absent(BrokerAddress(OWN), Zxid(2_000)),))

    effects = term.turn([gone], 1.0)

    assert StepDown in [type(effect) for effect in effects]
    assert term.turn([Fenced(CommitId(9)), Observed((registration(BrokerId(7)),))], 2.0) == []


def test_without_its_own_registration_no_one_could_find_it() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect")

    assert some(play.do("remove /brokers/ids/100"), "step down: this controller's own registration was deleted")


def test_the_shell_sees_whether_it_is_loaded_and_which_real_brokers_mean_to_stay() -> None:
    term = machine()
    assert not term.snapshot().is_loaded

    term.turn(LOADED, 0.0)
    assert term.snapshot().is_loaded
    assert term.snapshot().live_brokers == ()  # ourselves are none

    play = Play("brokers 1,2", "topic orders 0=1,2", "elect", "shutdown 2")
    assert play.theatre.machine is not None
    (live,) = play.theatre.machine.snapshot().live_brokers
    assert isinstance(live, LiveBroker)
    assert live.broker == 1
