"""The schedule orders and pairs faults."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from tests.chaos.faults import ALL, BY_NAME, Role
from tests.chaos.schedule import healing_order, schedule, scripted
from tests.chaos.scripts import SCRIPTS, script

FEW = tuple(BY_NAME[name] for name in ("kill-leader", "pause-broker", "cut-broker", "ensemble-down"))


def test_the_same_seed_strikes_the_same() -> None:
    assert list(islice(schedule(7, ALL), 100)) == list(islice(schedule(7, ALL), 100))
    assert list(islice(schedule(7, ALL), 100)) != list(islice(schedule(8, ALL), 100))


def test_every_fault_strikes_once_before_any_strikes_again() -> None:
    singles = [strike.name for strike in islice(schedule(1, FEW, with_pairs=False), 2 * len(FEW))]
    assert Counter(singles[: len(FEW)]) == Counter(fault.name for fault in FEW)
    assert Counter(singles[len(FEW) :]) == Counter(fault.name for fault in FEW)


def test_a_pair_follows_every_second_fault_and_strikes_different_processes() -> None:
    sizes = [len(strike.blows) for strike in islice(schedule(3, ALL), 12)]
    assert sizes == [1, 1, 2] * 4
    for strike in islice(schedule(3, ALL), 300):
        roles = [blow.fault.role for blow in strike.blows]
        assert len(set(roles)) == len(roles) or roles == [Role.BROKER, Role.BROKER]


def test_two_brokers_are_struck_and_not_one_twice() -> None:
    (strike,) = scripted([("kill-broker", "pause-broker")])
    one, other = strike.blows
    for brokers in (3, 4):
        assert one.victim % brokers != other.victim % brokers


def test_a_fault_that_pairs_with_none_strikes_singly() -> None:
    only = (BY_NAME["kill-leader"],)
    assert all(len(strike.blows) == 1 for strike in islice(schedule(1, only), 20))


def test_each_lasts_as_long_as_its_longest_fault_may() -> None:
    for strike in islice(schedule(5, ALL), 200):
        faults = [blow.fault for blow in strike.blows]
        assert max(f.shortest_s for f in faults) <= strike.hold_s <= max(f.longest_s for f in faults)


def test_the_ensemble_heals_first_and_controllers_last() -> None:
    (strike,) = scripted([("kill-leader", "kill-broker", "ensemble-down")])
    assert [b.fault.name for b in healing_order(strike)] == ["ensemble-down", "kill-broker", "kill-leader"]


def test_each_script_names_faults_that_exist() -> None:
    for name in SCRIPTS:
        assert script(name, 1) == script(name, 1)


def test_names_of_faults_are_unique() -> None:
    assert len(BY_NAME) == len(ALL)
