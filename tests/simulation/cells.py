"""Which faults cannot strike in which phases, and why?"""

from __future__ import annotations

from tests.simulation.phases import Phase

# The reason of each. Faults that need a term are mostly aimed at the one about to begin.
CANNOT: dict[tuple[str, Phase], str] = {
    ("overtake_a_release", Phase.CLAIM): "during a claim no controller leads, so none gives a claim up",
}


def why_not(fault: str, phase: Phase) -> str | None:
    """The reason why a fault cannot strike in a phase; None if it can."""
    return CANNOT.get((fault, phase))
