"""Which decisions were written soon after which faults? What never met a fault was never tried against it.

A kind of decision is the sentence that says why, without the names and numbers in it.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator

from tests.simulation.cells import why_not
from tests.simulation.phases import Phase

SOON_S = 10.0

_LISTS = re.compile(r"\[[^\]]*\]")
_IDS = re.compile(r"\b[\w-]{22}(?![\w-])")
_NAMES = re.compile(r"-?[\w.-]*\d[\w.-]*")
_SEVERAL = re.compile(r"#(?:, #)+")


def kind_of(why: str) -> str:
    """What is decided, whatever it is about.

    >>> kind_of("leader 2 of topic1-0 is offline; 3 is the first online in-sync replica")
    'leader # of # is offline; # is the first online in-sync replica'
    >>> kind_of("asked to move topic1-0 to [3, 1] by /admin/reassign_partitions")
    'asked to move # to […] by /admin/reassign_partitions'
    """
    for pattern, instead in ((_LISTS, "[…]"), (_IDS, "#"), (_NAMES, "#"), (_SEVERAL, "#")):
        why = pattern.sub(instead, why)
    return why


class Coverage:
    """Decisions by kind and fault, counted over as many worlds as are added to it.

    Units:
        A fault counts for `SOON_S` simulated seconds.
    """

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.met: Counter[tuple[str, str]] = Counter()
        self.struck_in: Counter[tuple[str, Phase]] = Counter()
        self._recent: deque[tuple[float, str]] = deque()

    def struck(self, fault: str, now: float, phases: Iterable[Phase] = ()) -> None:
        """Something went wrong, while this was being done."""
        self.faults[fault] += 1
        self.struck_in.update((fault, phase) for phase in phases)
        self._recent.append((now, fault))

    def decided(self, why: Iterable[str], now: float) -> None:
        """ZooKeeper accepted what was decided for these reasons."""
        while self._recent and self._recent[0][0] < now - SOON_S:
            self._recent.popleft()
        faults = dict.fromkeys(fault for _, fault in self._recent)
        for kind in map(kind_of, why):
            self.decisions[kind] += 1
            self.met.update((kind, fault) for fault in faults)

    def add(self, other: Coverage) -> None:
        """Count another world too."""
        self.faults += other.faults
        self.decisions += other.decisions
        self.met += other.met
        self.struck_in += other.struck_in

    def table(self) -> Iterator[str]:
        """Faults and phases, then faults and decisions."""
        yield from self.phases()
        yield ""
        yield from self.pairs()

    def phases(self) -> Iterator[str]:
        """A line a fault, a column a phase: how often it struck. A dash where it cannot, a dot where it did not."""
        yield " ".join((*(f"{phase:>13}" for phase in Phase), "  all", "fault"))
        for fault in sorted(self.faults):
            cells = (self.struck_in[fault, phase] or ("-" if why_not(fault, phase) else ".") for phase in Phase)
            yield " ".join((*(f"{cell:>13}" for cell in cells), f"{self.faults[fault]:>5}", fault))
        empty = len(self.empty(sorted(self.faults)))
        yield f"{len(self.struck_in)} of {len(self.faults) * len(Phase)} cells have something in them, {empty} could"

    def empty(self, faults: Iterable[str]) -> list[tuple[str, Phase]]:
        """The cells of these faults in which nothing struck, and could."""
        every = [(fault, phase) for fault in faults for phase in Phase]
        return [cell for cell in every if not self.struck_in[cell] and why_not(*cell) is None]

    def pairs(self) -> Iterator[str]:
        """A line a kind of decision, a column a fault; a dot where the two have never met."""
        faults = sorted(self.faults)
        for number, fault in enumerate(faults, 1):
            yield f"{number:>3}  {fault} ({self.faults[fault]})"
        yield " ".join((*(f"{number:>5}" for number in range(1, len(faults) + 1)), "  all"))
        for kind, count in sorted(self.decisions.items()):
            cells = (self.met[kind, fault] or "." for fault in faults)
            yield " ".join((*(f"{cell:>5}" for cell in cells), f"{count:>5}", kind))
        pairs = len(faults) * len(self.decisions)
        yield f"{len(self.met)} of {pairs} pairs of a fault and a decision within {SOON_S:.0f} s of it"
