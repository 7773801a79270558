"""Is it found before the claim that brokers could not write what we create, or that others could?"""

from __future__ import annotations

import pytest

from controller.preflight.findings import Check, Gravity
from controller.preflight.judging import judge
from controller.preflight.sightings import Seen, Wanted
from controller.zk.inspection import Place
from controller.zk.rights import Granted, Right
from zk_layout.ids import BrokerId

EVERYTHING = Right(31)
OPEN = Granted(EVERYTHING, anyone=EVERYTHING)
OURS = Granted(EVERYTHING, anyone=Right.READ)
OF_KAFKA = Granted(Right.READ, others=("sasl:kafka",), anyone=Right.READ)
MAYBE_OURS = Granted(Right.READ, EVERYTHING, ("x509:CN=b",), Right.READ)


def found(sets_acl: bool, *registrations: Granted) -> list[tuple[Gravity, str]]:
    """The findings about rights, without those about reading and writing what exists."""
    wanted = Wanted(BrokerId(901), "zk:2181", "PLAINTEXT", None, sets_acl=sets_acl)
    seen = Seen(
        Place((), True, "abc", ()), {}, registrations={BrokerId(n): one for n, one in enumerate(registrations, 1)}
    )
    return [(f.gravity, f.text) for f in judge(wanted, seen) if f.check is Check.PERMISSIONS][1:]


@pytest.mark.parametrize(
    ("sets_acl", "registrations"),
    [(False, []), (True, []), (False, [OPEN, OPEN]), (True, [OURS, OURS]), (True, [OURS, MAYBE_OURS])],
)
def test_who_does_as_the_brokers_do_is_sound(sets_acl: bool, registrations: list[Granted]) -> None:
    assert found(sets_acl, *registrations) == []


def test_brokers_that_protect_more_are_a_warning() -> None:
    text = "broker 2 protects what is created in ZooKeeper, and this process does not"
    assert found(False, OPEN, OF_KAFKA) == [(Gravity.WARNING, text)]


def test_brokers_that_do_not_protect_might_not_be_able_to_write() -> None:
    text = "what broker 2 creates in ZooKeeper is open to all, and zookeeper.set.acl is true here"
    assert found(True, OURS, OPEN) == [(Gravity.STOP, text)]


def test_brokers_of_another_name_could_not_write() -> None:
    text = "brokers 1, 2 could not write what this process creates: in ZooKeeper they are sasl:kafka"
    assert found(True, OF_KAFKA, OF_KAFKA) == [(Gravity.STOP, text)]
