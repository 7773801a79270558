"""What was measured, when, on which machine and of which commit? A file that holds every run as soon as it is over."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct, structs

BUSY_PROCESSORS = 0.3


class Run(Struct, frozen=True):
    """One run of one contender.

    Shape:
        A figure's name ends with its unit: `_s`, `_ms`, `_mib`, `_bytes`; without one it is a count. `at` is the local
        date and time of its end. `quiet_before`: how many processors were busy just before, if that is known;
        `others_s`: the processor time of everything else on the machine meanwhile.
    """

    contender: str
    at: str
    figures: dict[str, float]
    others_s: float
    measured_s: float
    quiet_before: float | None = None

    @property
    def others(self) -> float:
        """How many processors everything else kept busy."""
        return self.others_s / self.measured_s

    @property
    def is_disturbed(self) -> bool:
        """Whether the machine was too busy for wall-clock times to count."""
        return self.others > BUSY_PROCESSORS


class Measured(Struct, frozen=True):
    """The runs of one case, all of one commit on one machine."""

    machine: str
    commit: str
    runs: tuple[Run, ...] = ()

    def of(self, contender: str) -> list[Run]:
        """The runs of one contender."""
        return [run for run in self.runs if run.contender == contender]

    def values(self, contender: str, figure: str) -> list[float]:
        """One figure of each of its runs."""
        return [run.figures[figure] for run in self.of(contender) if figure in run.figures]

    def ratio(self, ours: str, theirs: str, figure: str) -> float | None:
        """Our median as a share of theirs; None if one of the two was not measured."""
        our_values, their_values = self.values(ours, figure), self.values(theirs, figure)
        if not our_values or not their_values:
            return None
        return statistics.median(our_values) / statistics.median(their_values)


def unfit(known: Measured, contenders: Iterable[str], runs: int, *, disturbed: bool) -> str:
    """Why a case may not be published; empty if it may. With `disturbed` it may although the machine had other work."""
    for contender in contenders:
        if len(known.of(contender)) < runs:
            return f"{contender} has {len(known.of(contender))} of {runs} runs; measure again, it goes on from there"
    if not disturbed and any(run.is_disturbed for run in known.runs):
        return "the machine had other work; measure again with --fresh, or take it with --disturbed"
    return ""


class Record:
    """The file; a case that was begun with another commit or on another machine begins again."""

    def __init__(self, path: Path) -> None:
        """Reads what the file has; without one, nothing was measured yet."""
        self._path = path
        self.cases: dict[str, Measured] = read(path) if path.exists() else {}

    def begin(self, case: str, machine: str, commit: str) -> Measured:
        """What this case has already, of this commit on this machine."""
        known = self.cases.get(case)
        if known is None or (known.machine, known.commit) != (machine, commit):
            self.cases[case] = known = Measured(machine, commit)
        return known

    def add(self, case: str, run: Run) -> None:
        """Keep a run of a case that was begun."""
        known = self.cases[case]
        self.cases[case] = structs.replace(known, runs=(*known.runs, run))
        self.save()

    def forget(self, cases: Iterable[str]) -> None:
        """Measure these cases again."""
        for case in cases:
            self.cases.pop(case, None)
        self.save()

    def take(self, cases: Iterable[tuple[str, Measured]]) -> None:
        """Put other measurements of these cases in the place of ours."""
        self.cases.update(cases)
        self.save()

    def save(self) -> None:
        """Write the file; a process that is killed meanwhile leaves the former one."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".part")
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(self.cases)) + b"\n")
        unfinished.replace(self._path)


def read(path: Path) -> dict[str, Measured]:
    """The measurements of each case in a file.

    Raises:
        msgspec.DecodeError: it is not such a file.
    """
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Measured])
