"""The language of scenarios, where clients move replicas: reassign, cancel, list."""

from __future__ import annotations

from collections.abc import Callable

from controller.core.messages.requests import AlterReassignments, ListReassignments, Mode, PartitionReassignment
from tests.scenarios.reading import partition_of, replicas_of
from tests.scenarios.theatre import Theatre
from zk_layout.ids import RequestId


def _ask_reassign(mode: Mode) -> Callable[..., None]:
    """`ask reassign [throttle=5000000] [reason=disks] [give_up_ms=60000] orders-0 to=3,4 …`, also `ask forced …`.

    `to=3,4*7` gives the move the weight 7.
    """

    def ask(theatre: Theatre, *words: str) -> None:
        reassignments, throttle, reason, give_up_ms = [], None, None, None
        if words[0].startswith("throttle="):
            throttle, words = int(words[0].removeprefix("throttle=")), words[1:]
        if words[0].startswith("reason="):
            reason, words = words[0].removeprefix("reason="), words[1:]
        if words[0].startswith("give_up_ms="):
            give_up_ms, words = int(words[0].removeprefix("give_up_ms=")), words[1:]
        for partition, target in zip(words[::2], words[1::2], strict=True):
            replicas, _, weight = target.removeprefix("to=").partition("*")
            reassignments.append(
                PartitionReassignment(partition_of(partition), replicas_of(replicas), int(weight or 0))
            )
        theatre.ask(
            AlterReassignments(tuple(reassignments), mode, throttle=throttle, reason=reason, give_up_ms=give_up_ms)
        )

    return ask


def _ask_cancel(mode: Mode) -> Callable[..., None]:
    """`ask cancel orders-0 orders-1`, also `ask gentle cancel …` and `ask forced cancel …`."""

    def ask(theatre: Theatre, *partitions: str) -> None:
        theatre.ask(AlterReassignments(tuple(PartitionReassignment(partition_of(p), None) for p in partitions), mode))

    return ask


def _ask_cancel_and_set(theatre: Theatre, _set: str, *words: str) -> None:
    """`ask cancel and set orders-0 to=none orders-1 to=3,4`: both in one request."""
    reassignments = []
    for partition, target in zip(words[::2], words[1::2], strict=True):
        reassignments.append(
            PartitionReassignment(
                partition_of(partition), None if target == "to=none" else replicas_of(target.removeprefix("to="))
            )
        )
    theatre.ask(AlterReassignments(tuple(reassignments)))


def _ask_list(theatre: Theatre, *partitions: str) -> None:
    """`ask list [orders-0 …]`: what moves, of all or of these."""
    theatre.ask(ListReassignments(tuple(map(partition_of, partitions)) or None))


def _ask_status(theatre: Theatre, request: str) -> None:
    """`ask status 1`: how far a request is."""
    theatre.ask(ListReassignments((), RequestId(int(request))))


MOVE_COMMANDS: dict[str, Callable[..., None]] = {
    "ask reassign": _ask_reassign(Mode.SAFE),
    "ask forced reassign": _ask_reassign(Mode.FORCED),
    "ask cancel and": _ask_cancel_and_set,
    "ask cancel": _ask_cancel(Mode.SAFE),
    "ask gentle cancel": _ask_cancel(Mode.GENTLE),
    "ask forced cancel": _ask_cancel(Mode.FORCED),
    "ask list": _ask_list,
    "ask status": _ask_status,
}
