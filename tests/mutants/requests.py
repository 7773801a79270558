"""Mistakes about what is said of a request for moves."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, story, unit

WAITING = "controller/core/state/waiting_znodes.py"
LEDGER = "controller/core/progress/ledger.py"
STATUS_ZNODES = "controller/core/progress/status_znodes.py"

MUTANTS = (
    Mutant(
        "takes what was granted before for later, because its request has its answer later",
        LEDGER,
        "if outcome is not None and not self._is_in_force(at, earlier.entries[at]):",
        "if outcome is not None:",
        (unit("waiting_moves"),),
    ),
    Mutant(
        "goes on counting a move as waiting that another one has replaced in the queue",
        LEDGER,
        "elif entry.outcome is None and entry.waits_in is not None and not self._is_in_force(at, entry):",
        "elif False:",
        (unit("waiting_moves"),),
    ),
    Mutant(
        "never ends the wait of a move whose topic its successor could read only later",
        LEDGER,
        "elif asked.is_reopened and self._cluster.waiting_move(at) is None:",
        "elif False:",
        (unit("waiting_moves"),),
        unseen="one world in some ten thousand",
    ),
    Mutant(
        "judges what was granted in a deleted topic by the topic that was created again",
        LEDGER,
        "identity = entry.waits_in or entry.granted_in",
        "identity = entry.waits_in",
        (unit("waiting_moves"),),
    ),
    Mutant(
        "forgets records that it may not judge yet",
        STATUS_ZNODES,
        "self._unclaimed.update(dict.fromkeys(unclaimed))",
        "self._unclaimed = dict.fromkeys(unclaimed)",
        (unit("move_records"),),
    ),
    Mutant(
        "deletes records while it may not read which statuses there are",
        STATUS_ZNODES,
        "if not self._unclaimed or reassignment_status.ROOT in unreadable:",
        "if not self._unclaimed:",
        (unit("move_records"),),
        unseen="in worlds the statuses can always be listed",
    ),
    Mutant(
        "deletes the status of a request and leaves its records",
        STATUS_ZNODES,
        "yield self._proposal(_subject(request), Atom(status, (why,), before=records), _Memo(request))",
        "yield self._proposal(_subject(request), Atom(status, (why,)), _Memo(request))",
        (story("requests_are_recorded"),),
        unseen="records without a status are deleted afterwards",
    ),
    Mutant(
        "forgets at a fail-over why a request was made",
        LEDGER,
        "reopened.reason = status.reason or None",
        "reopened.reason = None",
        (unit("move_records"),),
        unseen="no client of a world gives a reason",
    ),
    Mutant(
        "tells the log of moves of a move whose request has no id yet",
        LEDGER,
        "            if asked.request is not None:\n                self._tell(asked)\n        asked.has_news = True",
        "            self._tell(asked)\n        asked.has_news = True",
        (unit("moves_accounted"),),
        unseen="the log of moves decides nothing",
    ),
    Mutant(
        "counts a stage that began before its term from the beginning of the term",
        "controller/core/progress/measuring.py",
        "if not self.is_since_known:",
        "if False:",
        (unit("moves_accounted"),),
        unseen="the log of moves decides nothing",
    ),
    Mutant(
        "takes replicas in sync to share a throttle of ours",
        "controller/core/progress/status_text.py",
        "asked.closing.remaining_s(self._progress.throttled())",
        "asked.closing.remaining_s()",
        (unit("time_left_of_requests"),),
        unseen="the time left decides nothing",
    ),
    Mutant(
        "gives the id of records that have no status to another request",
        "controller/core/state/statuses.py",
        "while request in self.kept or request in self.records:",
        "while request in self.kept:",
        (unit("move_records"),),
        unseen="the id is refused, and the records are deleted before the next attempt",
    ),
    Mutant(
        "gives a request no id as long as ZooKeeper refuses its records",
        STATUS_ZNODES,
        ">= TRIES_WITH_RECORDS:",
        ">= 1_000:",
        (unit("move_records"),),
        unseen="worlds let every child of a folder be created",
    ),
    Mutant(
        "forgets at a fail-over how long a request lets its moves wait",
        LEDGER,
        "reopened.give_up_ms = None if status.give_up_ms is UNSET else status.give_up_ms",
        "reopened.give_up_ms = None",
        (unit("giving_up"),),
        unseen="the waiting moves' own records count",
    ),
    Mutant(
        "says of a move that gave up that another request has superseded it",
        LEDGER,
        "GAVE_UP if has_given_up else overruled",
        "overruled",
        (unit("giving_up"),),
        unseen="worlds do not ask what became of what no longer waits",
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
        "(topic is None or not identity.is_of(topic))",
        "topic is None",
        (unit("waiting_moves"),),
        unseen="no move waits yet",
    ),
    Mutant(
        "ends a wait twice that has ended with that of another request",
        LEDGER,
        "            if asked.entries[at].outcome is not None:\n",
        "            if False:\n",
        (unit("waiting_moves"),),
        unseen="a topic must be hidden from a leader that takes two requests up: found by world 4158",
    ),
)
