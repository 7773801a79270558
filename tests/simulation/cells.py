"""Which faults cannot strike in which phases, and why?"""

from __future__ import annotations

from tests.simulation.phases import Phase

# The reason of each; none today, because faults that need a term are aimed at the one about to begin.
CANNOT: dict[tuple[str, Phase], str] = {}


def why_not(fault: str, phase: Phase) -> str | None:
    """The reason why a fault cannot strike in a phase; None if it can."""
    return CANNOT.get((fault, phase))
