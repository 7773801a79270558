"""Mistakes of a process that observes: it would count differences that are none, or none that are."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, unit

JUDGING = "controller/core/comparing/judging.py"
DUTY = "controller/core/comparing/duty.py"
COMPARED = "tests/unit/process/test_comparing.py"
NOBODY_OBSERVES = "no world has a process that observes"

MUTANTS = (
    Mutant(
        "takes a replica that was not to leave an ISR for one of several steps",
        JUDGING,
        "return theirs.leader in leaders and set(ours.isr) <= set(theirs.isr) <= set(former.isr)",
        "return theirs.leader in leaders and set(theirs.isr) <= set(former.isr)",
        (unit("comparing"),),
        unseen=NOBODY_OBSERVES,
    ),
    Mutant(
        "takes every new leader for one that somebody asked for",
        JUDGING,
        "    return former.leader in left or former.leader in removing or theirs.leader == replicas[0]",
        "    return bool(replicas)",
        (unit("comparing"), COMPARED),
        unseen=NOBODY_OBSERVES,
    ),
    Mutant(
        "compares what was written twice since it was read",
        JUDGING,
        "if written.epoch != written.former.epoch + 1 or isinstance(ours, Look):",
        "if isinstance(ours, Look):",
        (unit("comparing"),),
        unseen=NOBODY_OBSERVES,
    ),
    Mutant(
        "compares ISRs that leaders change with what it would write",
        DUTY,
        "return state.leader_epoch > former.state.leader_epoch",
        "return state != former.state",
        (COMPARED,),
        unseen=NOBODY_OBSERVES,
    ),
    Mutant(
        "does not miss what the controller that leads does not do",
        DUTY,
        "            if self._transactions.writes(wish.commit):",
        "            if not self._transactions.writes(wish.commit):",
        (COMPARED,),
        unseen=NOBODY_OBSERVES,
    ),
    Mutant(
        "calls a difference one at the first look",
        DUTY,
        "if verdict.outcome in DIFFERENCES and doubt.looks < len(LOOKS_AFTER_S):",
        "if verdict.outcome in DIFFERENCES and doubt.looks < 1:",
        (COMPARED,),
        unseen=NOBODY_OBSERVES,
    ),
)
