"""Which faults cannot strike in which phases, and why?"""

from __future__ import annotations

from tests.simulation.phases import Phase

# The reason of each. There is none today: what needs a term is aimed at the one that is about to begin.
CANNOT: dict[tuple[str, Phase], str] = {}


def why_not(fault: str, phase: Phase) -> str | None:
    """Why a fault cannot strike while this is being done; None where it can."""
    return CANNOT.get((fault, phase))
