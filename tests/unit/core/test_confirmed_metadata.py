"""That brokers have taken in metadata is no cause for a decision; whatever else they answer is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.core import duties, machine
from controller.core.machine import Machine
from controller.core.memory import Memory
from controller.core.messages.commands import Command, LeaderAndIsr, StopReplica, UpdateMetadata
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Again, Event, Loaded, Observed, Woke
from controller.core.messages.outbox import Outbox
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.transactions.proposal import Proposal
from controller.core.turn.duty import Duty, Report
from controller.core.turn.intake import Intake
from controller.core.turn.shared import Shared
from tests.unit.core.builders import AT, EPOCH, OWN, registration
from zk_layout.ids import BrokerEpoch, BrokerId

METADATA = UpdateMetadata((), ())


class Witness(Duty):
    """Counts what it is asked, and says something when it hears, if it is told to."""

    def __init__(self) -> None:
        self.heard = self.proposed = 0
        self.speaks = False

    def hear(self, report: Report, out: Outbox) -> None:
        self.heard += 1
        if self.speaks:
            out.measured("notices", 1)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        self.proposed += 1
        return ()


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    found = Witness()

    def with_witness(shared: Shared, memory: Memory, intake: Intake) -> tuple[Duty, ...]:
        return (*duties.all_duties(shared, memory, intake), found)

    monkeypatch.setattr(machine, "all_duties", with_witness)
    return found


@pytest.fixture
def loaded(witness: Witness) -> Machine:
    found = Machine(MachineSettings(OWN, rebalance_every_s=None), EPOCH, SeededRandom(b"0"))
    found.turn([Observed((registration(BrokerId(1)), registration(OWN))), Loaded()], 0.0)
    found.turn([Woke(Again())], 0.0)
    witness.proposed = 0
    return found


def answer(
    command: Command = METADATA, error: ErrorCode = ErrorCode.NONE, *, is_for_partition: bool = False
) -> Acknowledged:
    errors = {AT: error} if is_for_partition else {}
    return Acknowledged(BrokerId(1), BrokerEpoch(1), command, ErrorCode.NONE if is_for_partition else error, errors)


def test_confirmed_metadata_is_heard_and_nothing_is_decided(loaded: Machine, witness: Witness) -> None:
    effects = loaded.turn([answer(), answer()], 1.0)

    assert (witness.heard, witness.proposed, effects) == (2, 0, [])


@pytest.mark.parametrize(
    "happened",
    [
        [answer(error=ErrorCode.STALE_BROKER_EPOCH)],
        [answer(error=ErrorCode.UNKNOWN_SERVER_ERROR, is_for_partition=True)],
        [answer(LeaderAndIsr((), (), ()))],
        [answer(StopReplica(()))],
        [Woke(Again()), answer()],
        [answer(), Woke(Again())],
        [],
    ],
)
def test_anything_else_leads_to_a_decision(loaded: Machine, witness: Witness, happened: list[Event]) -> None:
    loaded.turn(happened, 1.0)

    assert witness.proposed == 1


def test_what_a_duty_says_to_a_confirmation_is_followed_by_a_decision(loaded: Machine, witness: Witness) -> None:
    witness.speaks = True

    loaded.turn([answer()], 1.0)

    assert witness.proposed == 1
