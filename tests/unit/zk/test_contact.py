"""Does a process notice that ZooKeeper does not answer it, and only then?"""

from __future__ import annotations

import asyncio

import pytest

from controller.zk.contact import LOST_S, Contact
from tests.unit.zk.simulated import Ensemble, Process

EVERY_S = 0.2


class Asked:
    """A process that is asked all the time whether it has lost ZooKeeper."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.process = Process(self.ensemble)
        self.contact = Contact(lambda: self.process.bridge)

    def for_s(self, length_s: float) -> list[bool]:
        """What it says during this time."""

        async def asked() -> list[bool]:
            said = []
            for _ in range(round(length_s / EVERY_S)):
                said.append(self.contact.is_lost())
                await asyncio.sleep(EVERY_S)
            return said

        return self.process.do(asked())


def test_a_process_that_zookeeper_answers_has_not_lost_it() -> None:
    assert not any(Asked().for_s(5.0))


def test_a_lost_connection_counts_after_a_while_and_until_there_is_another() -> None:
    asked = Asked()
    asked.process.connection.drop(4.0)

    *at_first, last = asked.for_s(LOST_S)
    later = asked.for_s(4.0 - LOST_S - EVERY_S)
    asked.for_s(0.6)

    assert not any((*at_first, last))
    assert all(later[1:])
    assert not any(asked.for_s(3.0))


@pytest.mark.parametrize("times", [1, 5])
def test_a_connection_that_moves_to_another_server_is_none_that_is_lost(times: int) -> None:
    asked = Asked()
    for _ in range(times):
        asked.process.connection.drop(0.5)
        assert not any(asked.for_s(1.0))


def test_a_connection_over_which_nothing_comes_is_lost_too() -> None:
    asked = Asked()
    asked.ensemble.network.servers_stand_still_until = asked.ensemble.clock.now + 3.0

    said = asked.for_s(2.8)

    assert not any(said[:5])
    assert all(said[6:])
    assert not any(asked.for_s(2.0)[2:])


def test_what_a_former_connection_owes_counts_no_more() -> None:
    asked = Asked()
    former = asked.process
    former.connection.drop(60.0)
    assert any(asked.for_s(2.0))

    asked.process = Process(asked.ensemble)

    assert not any(asked.for_s(2.0))
    former.end()
    assert not any(asked.for_s(2.0))
