"""Which mistakes must be noticed? By simulation, and by something faster."""

from __future__ import annotations

from tests.mutants import (
    brokers,
    challenges,
    disks,
    elections,
    moves,
    observing,
    requests,
    rights,
    sending,
    standing,
    topics,
    turns,
    waiting,
)
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *elections.MUTANTS,
    *moves.MUTANTS,
    *waiting.MUTANTS,
    *disks.MUTANTS,
    *requests.MUTANTS,
    *brokers.MUTANTS,
    *topics.MUTANTS,
    *turns.MUTANTS,
    *standing.MUTANTS,
    *challenges.MUTANTS,
    *rights.MUTANTS,
    *observing.MUTANTS,
    *sending.MUTANTS,
)
