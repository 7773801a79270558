"""Does a controller decide the same again, turn by turn, with the same input in another process?

`python -m tests.simulation.journals DIRECTORY` replays the journals of worlds; each machine has a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from controller.core.machine import Machine
from controller.core.messages.effects import Effect
from controller.core.messages.events import Event
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.state.cluster import ClusterState
from controller.runtime.journal import Journal, Term, Turn, files, read, replay
from controller.runtime.pump import NO_TIME
from tests.simulation.world import World
from zk_layout.ids import BrokerId, ControllerEpoch


class RecordedMachine:
    """A machine that keeps a journal of its whole life."""

    def __init__(self, term: Term, journal: Journal, state: ClusterState) -> None:
        self._machine = machine_of(term, state)
        self._queue, self._transactions = self._machine._queue, self._machine._transactions
        self._journal = journal
        self._journal.begin(term)
        self.turns = 0

    def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
        self.turns += 1
        effects = self._machine.turn(events, now)
        self._journal.turned(now, events, effects, NO_TIME, 0)
        return effects

    def let_go(self) -> bool:
        return self._machine.let_go()


class RecordedWorld(World):
    """A world whose machines keep journals, each in its own folder."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._directory = directory
        self._journals: list[Journal] = []
        self.machines: list[RecordedMachine] = []
        super().__init__(seed)
        self.plan = replace(self.plan, warm_standby=False)  # a journal holds all that its term read

    def new_machine(self, own_id: BrokerId, epoch: ControllerEpoch, state: ClusterState) -> Any:
        term = Term(self.settings_of(own_id), epoch, self.seed_of(epoch))
        self._journals.append(Journal(self._directory / f"{self.seed}-{epoch}"))
        self.machines.append(RecordedMachine(term, self._journals[-1], state))
        return self.machines[-1]

    def run(self) -> None:
        super().run()
        for journal in self._journals:
            journal.close()


def machine_of(term: Term, state: ClusterState | None = None) -> Machine:
    """The machine of a journal."""
    assert isinstance(term.settings, MachineSettings)
    return Machine(term.settings, ControllerEpoch(term.controller_epoch), SeededRandom(term.seed), state=state)


def main(directory: Path) -> int:
    """Replay all journals; print the number of turns and the first differences."""
    machines = turns = 0
    differences = []
    for folder in sorted(directory.iterdir()):
        entries = list(read(files(folder)))
        machines += 1
        turns += sum(isinstance(entry, Turn) for entry in entries)
        differences += [f"{folder.name}: {difference}" for difference in replay(entries, machine_of)]
    lines = [f"{machines} machines, {turns} turns, {len(differences)} differences", *differences[:10]]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
