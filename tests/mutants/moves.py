"""Mistakes about which replicas a partition has."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, law, story, trap, unit

STAGE = "controller/core/stage.py"
RULE = "controller/core/reassignment/rule.py"
REDIRECTION = "controller/core/reassignment/redirection.py"
REMOVAL = "controller/core/reassignment/removal.py"
OWN_REPLICA = "controller/core/reassignment/own_replica.py"
LEGACY = "controller/core/reassignment/legacy_znode.py"
STEPS = "controller/core/steps/steps.py"
FOLDER = "controller/core/reassignment/folder.py"
FOREIGN = "controller/core/reassignment/foreign_writes.py"
LEDGER = "controller/core/progress/ledger.py"

MUTANTS = (
    Mutant(
        "raises no leader epoch of a topic that it cannot write",
        STEPS,
        "STATES_ONLY = (*ELECTIONS, Precedence.NEW_EPOCH)",
        "STATES_ONLY = ELECTIONS",
        (trap("former_lives"),),
        unseen="one world of a thousand takes the right to write a topic for good where a broker dies that lags",
    ),
    Mutant(
        "asks again for a move that is written, because the rest of its decision was refused",
        STEPS,
        "done, left = self._carried_out(step, out)",
        "done, left = [], step.accepted",
        (unit("refused_writes"),),
        unseen="two requests for one partition are cut in two, and the later one times out, in one world of a thousand",
    ),
    Mutant(
        "calls a move that has not begun cancelled",
        LEDGER,
        "return CANCELLED if entry.waits_in is None else WAITING",
        "return CANCELLED",
        (unit("waiting_moves"),),
        unseen="no move waits yet",
    ),
    Mutant(
        "lets a topic that is created again inherit what waits",
        LEDGER,
        "(topic is None or not entry.waits_in.is_of(topic))",
        "topic is None",
        (unit("waiting_moves"),),
        unseen="no move waits yet",
    ),
    Mutant(
        "lets go when one replica of the target is in sync",
        STAGE,
        "if set(target).issubset(state.isr):",
        "if any(r in state.isr for r in target):",
        (law("assignment_arithmetic"),),
    ),
    Mutant(
        "announces the leaving replicas until they are gone",
        STAGE,
        "if assignment.is_moving and stage(assignment, state) is Stage.LETTING_GO:",
        "if assignment.is_moving and stage(assignment, state) is Stage.SETTLED:",
        (law("assignment_arithmetic"),),
    ),
    Mutant(
        "forgets in-sync replicas that an assignment does not name",
        STAGE,
        "unlisted = tuple(r for r in state.isr if r not in assignment.replicas)\n    if not unlisted",
        "unlisted: Replicas = ()\n    if not unlisted",
        (unit("foreign_writes"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "forgets where a move began when it gets another target",
        STAGE,
        "original = assignment.original",
        "original = assignment.target",
        (law("assignment_arithmetic"),),
    ),
    Mutant(
        "does not announce a leader's new replicas to it",
        RULE,
        "        if case.is_unannounced:",
        "        if case.is_unannounced and case.unlisted:",
        (unit("reassignment"),),
    ),
    Mutant(
        "forgets who has not confirmed its deletion",
        RULE,
        "owed = tuple(r for r in dict.fromkeys((*case.owed, *waiting)) if r not in settled)",
        "owed = tuple(r for r in case.owed if r not in settled)",
        (unit("reassignment"),),
    ),
    Mutant(
        "ends a move without waiting for its deletions",
        RULE,
        "    if not case.is_patience_over and any(cluster.is_registered(r) for r in waiting):\n        return None\n",
        "",
        (unit("reassignment"),),
    ),
    Mutant(
        "hands over to a replica that is offline",
        RULE,
        "next((r for r in target if r in isr and cluster.is_online(r, case.at)), None)",
        "next((r for r in target if r in isr), None)",
        (unit("reassignment"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "moves in one step to a target of which not every replica is online",
        RULE,
        "all(r in state.isr and cluster.is_online(r, case.at) for r in target)",
        "all(r in state.isr for r in target)",
        (unit("reassignment"),),
    ),
    Mutant(
        "keeps the leaving ones in the ISR when it hands over",
        RULE,
        "isr = tuple(r for r in state.isr if r in target)",
        "isr = state.isr",
        (unit("reassignment"),),
    ),
    Mutant(
        "goes on owing the deletion of a replica that is wanted again",
        RULE,
        "wanted_again = tuple(r for r in case.owed if r in case.assignment.replicas)",
        "wanted_again: Replicas = ()",
        (unit("reassignment"),),
    ),
    Mutant(
        "forgets the replicas that a cancel drops",
        REDIRECTION,
        "dict.fromkeys((*case.owed, *dropped))",
        "dict.fromkeys(case.owed)",
        (unit("reassignment"),),
    ),
    Mutant(
        "cancels though that stops the only copies in sync",
        REDIRECTION,
        "if is_unsafe and mode is not Mode.FORCED:",
        "if is_unsafe and mode is Mode.GENTLE:",
        (unit("reassignment"),),
    ),
    Mutant(
        "keeps replicas in the ISR that a cancel drops",
        REDIRECTION,
        "kept = tuple(r for r in state.isr if r in to.replicas)",
        "kept = state.isr",
        (unit("reassignment"),),
    ),
    Mutant(
        "takes a late confirmation for one of this move",
        REMOVAL,
        "if held.state.leader_epoch == stop.leader_epoch:",
        "if held.state.leader_epoch >= stop.leader_epoch:",
        (trap("tickets"),),
    ),
    Mutant(
        "remembers confirmations of an earlier move",
        REMOVAL,
        "self._keep(at, frozenset(b for b in confirmed if b in leaving))",
        "self._keep(at, confirmed)",
        (unit("ends_of_moves"),),
    ),
    Mutant(
        "leaves replicas on its own id",
        OWN_REPLICA,
        "if controllers.keys().isdisjoint(case.assignment.replicas):",
        "if cluster.own_id in controllers:",
        (unit("controllers_are_no_brokers"),),
    ),
    Mutant(
        "never takes an entry out of the legacy znode that is done",
        LEGACY,
        "            self._done[case.at] = None\n            return None",
        "            return None",
        (story("legacy_znode"),),
    ),
    Mutant(
        "leaves refused entries in the legacy znode",
        LEGACY,
        "            self._refused[case.at] = outcome.message or outcome.error.name\n",
        "",
        (story("legacy_bad_entries"),),
    ),
    Mutant(
        "lets a legacy entry come back that a request has overruled",
        LEGACY,
        "        if overruled:\n",
        "        if overruled and self._refused:\n",
        (story("legacy_and_requests"),),
    ),
    Mutant(
        "does not notice that a child was removed",
        FOLDER,
        "yield at, None",
        "continue",
        (story("reassignment_znodes"),),
    ),
    Mutant(
        "leaves the children of moves that are over",
        FOLDER,
        "            return Delete(_address(at), child.version, child.czxid)",
        "            return None",
        (story("reassignment_znodes"),),
    ),
    Mutant(
        "follows a child of an earlier topic",
        FOLDER,
        " and child.mzxid > topic.czxid:",
        ":",
        (unit("reassignment_znodes"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "follows a child though its partition is in quarantine",
        FOLDER,
        "if draft.touches(number) or number in step.limited:",
        "if draft.touches(number):",
        (story("reassignment_znode_cannot_be_followed"),),
    ),
    Mutant(
        "forgets a child that came while its topic was in quarantine",
        STEPS,
        "        quarantine.due.update(dict.fromkeys(step.limited))\n",
        "",
        (story("reassignment_znode_cannot_be_followed"),),
    ),
    Mutant(
        "follows a child that another controller has ignored",
        FOLDER,
        "if held.state.controller_epoch > self._state.kept_by:",
        "if held.state.controller_epoch > self._state.kept_by and held.is_malformed:",
        (story("reassignment_znodes_across_terms"),),
    ),
    Mutant(
        "leaves a child behind for its successor to follow",
        FOLDER,
        "self._void[at] = self._doubted[at] = mzxid",
        "self._void[at] = mzxid",
        (unit("reassignment_znodes"),),
    ),
    Mutant(
        "takes a child that it deleted itself for one that was removed",
        FOLDER,
        "is_ours = self._deleting.get(at.topic, {}).get(at.partition) == (former.czxid, former.version)",
        "is_ours = False",
        (unit("reassignment_znodes"),),
        unseen="only where a transaction has to be cut",
    ),
    Mutant(
        "keeps what someone else wrote though its own write of the same was refused",
        FOREIGN,
        "self._unwritten[step.name] = replaced",
        "self._unwritten.pop(step.name, None)",
        (unit("foreign_writes"),),
        unseen="only a deletion that is owed is lost with it",
    ),
    Mutant(
        "obeys foreign writes of its assignments",
        FOREIGN,
        "if not expected.replicas or expected == found:",
        "if expected.replicas or expected == found:",
        (unit("foreign_writes"), story("written_by_someone_else")),
    ),
    Mutant(
        "takes its own writes for someone else's",
        FOREIGN,
        "return ours if ours is not None and (ours == found or name in self._accepted) else before",
        "return before",
        (story("reassign_one_partition"),),
    ),
)
