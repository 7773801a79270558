"""Which faults cannot strike in which phases, and why?"""

from __future__ import annotations

from tests.simulation.phases import Phase

# The reason of each. What needs a term is most often aimed at the one that is about to begin.
CANNOT: dict[tuple[str, Phase], str] = {
    ("overtake_a_release", Phase.CLAIM): "while somebody claims nobody leads, and so nobody gives a claim up",
}


def why_not(fault: str, phase: Phase) -> str | None:
    """Why a fault cannot strike while this is being done; None where it can."""
    return CANNOT.get((fault, phase))
