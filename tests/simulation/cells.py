"""Which faults cannot strike in which phases, and why?"""

from __future__ import annotations

from tests.simulation.phases import Phase

NO_TERM = "there is no term yet that decides, writes or tells anything"
CANNOT: dict[tuple[str, Phase], str] = {}


def why_not(fault: str, phase: Phase) -> str | None:
    """Why a fault cannot strike while this is being done; None where it can."""
    return CANNOT.get((fault, phase))
