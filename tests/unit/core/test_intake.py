"""When is a request considered, and what is its caller told where that never happens?"""

from __future__ import annotations

from controller.core.machine import Machine
from controller.core.messages.effects import Answer, Effect, Wake
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId, Event, Loaded, Observed, Woke
from controller.core.messages.replies import ReassignmentsAltered, ReassignmentsListed
from controller.core.messages.requests import (
    AlterReassignments,
    Caller,
    ListReassignments,
    PartitionReassignment,
    Request,
)
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.turn.intake import RequestDeadline
from tests.unit.core.builders import AT, EPOCH, OWN, ids, registration
from tests.unit.traps.play import Play, some

CALLER = Caller("PLAINTEXT", "127.0.0.1")
LOADED: tuple[Event, ...] = (Observed((registration(OWN),)), Loaded())


def machine(software: str = "") -> Machine:
    """One that has not loaded anything yet."""
    return Machine(MachineSettings(own_id=OWN, software=software), EPOCH, SeededRandom(b"0"))


def asked(request: Request, call: int = 1) -> Asked:
    return Asked(CallId(call), request, CALLER)


def move(timeout_ms: int = 60_000) -> AlterReassignments:
    return AlterReassignments((PartitionReassignment(AT, ids("1,2")),), timeout_ms=timeout_ms)


def answers(effects: list[Effect]) -> list[Answer]:
    return [effect for effect in effects if isinstance(effect, Answer)]


def test_a_request_that_comes_too_early_is_considered_as_soon_as_everything_is_loaded() -> None:
    early = machine(software="this one 1.2")
    assert answers(early.turn([asked(ListReassignments(None))], 0.0)) == []

    (answer,) = answers(early.turn(LOADED, 1.0))

    assert answer.call == 1
    assert isinstance(answer.reply, ReassignmentsListed)
    assert answer.reply.controller == "this one 1.2"


def test_a_request_whose_time_is_over_before_everything_is_loaded_is_never_considered() -> None:
    early = machine()
    assert Wake(RequestDeadline(), 60.0) in early.turn([asked(move())], 0.0)

    (answer,) = answers(early.turn([Woke(RequestDeadline())], 60.0))

    assert isinstance(answer.reply, ReassignmentsAltered)
    assert answer.reply.error is ErrorCode.REQUEST_TIMED_OUT
    assert answers(early.turn(LOADED, 61.0)) == []


def test_one_alarm_serves_all_requests_and_is_set_for_the_shortest_time() -> None:
    early = machine()
    early.turn([asked(move(60_000), 1)], 0.0)

    assert Wake(RequestDeadline(), 6.0) in early.turn([asked(move(5_000), 2)], 1.0)
    effects = early.turn([Woke(RequestDeadline())], 6.0)

    assert [answer.call for answer in answers(effects)] == [2]
    assert Wake(RequestDeadline(), 60.0) in effects


def test_a_mode_that_no_one_knows_is_refused_with_the_ones_there_are() -> None:
    loaded = machine()
    loaded.turn(LOADED, 0.0)

    request = AlterReassignments((PartitionReassignment(AT, ids("1,2")),), "brutal")
    (answer,) = answers(loaded.turn([asked(request)], 0.0))

    assert isinstance(answer.reply, ReassignmentsAltered)
    assert answer.reply.error is ErrorCode.INVALID_REQUEST
    assert answer.reply.message == "mode 'brutal' is unknown; leave it out, or use 'gentle' or 'forced'"


def test_who_gives_no_time_is_answered_at_once_and_its_topic_is_deleted_all_the_same() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect", "broker 2 hangs")

    lines = play.do("ask delete orders timeout_ms=0")

    assert some(lines, "asked to delete topic orders")
    assert some(lines, "answer orders REQUEST_TIMED_OUT")
