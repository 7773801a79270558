"""What does the log of moves hear of requests and of the moves that have ended?"""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.messages.effects import Effect, MoveAccounted, RequestAccounted
from controller.core.progress import duty
from tests.unit.traps.play import Play, Stage

ON = "set accounts_moves=true keeps_move_records=true"


class Listening(Stage):
    """Keeps what the log of moves is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[RequestAccounted | MoveAccounted] = []

    def _carry_out_one(self, effect: Effect) -> None:
        if isinstance(effect, RequestAccounted | MoveAccounted):
            self.told.append(effect)
        super()._carry_out_one(effect)


def playing(*commands: str, setting: str = ON) -> tuple[Play, list[Any]]:
    play = Play()
    play.theatre = Listening()
    play.do(setting, "brokers 1,2,3,4", "topic o 0=1,2 1=1,2 2=1,2", "elect", *commands)
    return play, play.theatre.told


def shown(told: list[Any]) -> list[object]:
    return [
        dict(one.counts) if isinstance(one, RequestAccounted) else (str(one.at), one.before, one.after, one.outcome)
        for one in told
    ]


def test_nothing_is_told_unless_it_is_asked_for() -> None:
    _, told = playing("ask reassign o-0 to=2,1", "time +10s", setting="set keeps_move_records=true")

    assert told == []


def test_a_move_is_told_with_who_why_where_from_and_how_long_each_stage_took() -> None:
    play, told = playing("as ann tool", "time +2s", "ask reassign reason=disks o-0 to=3,2")
    play.do("time +7s", "isr o-0 1,2,3", "time +1s")

    accepted, move, ended = told

    assert (accepted.is_end, ended.is_end, dict(ended.counts)) == (False, True, {"completed": 1})
    assert {one.by for one in told} == {move.by}
    by = move.by
    assert (by.request, by.origin, by.requested_ms, by.reason) == (1, "AlterPartitionReassignments", 2000, "disks")
    assert (by.caller.principal, by.caller.client_id, by.caller.address) == ("User:ann", "tool", "127.0.0.1")
    assert (move.before, move.after, move.outcome, move.is_cancel) == ((1, 2), (3, 2), "completed", False)
    assert (move.waiting_s, move.copying_s) == (0, 7)
    assert move.finishing_s is not None
    assert move.at_ms == ended.at_ms == 9000 + round(move.finishing_s * 1000)


def test_a_move_that_is_done_at_once_is_told_after_its_request_got_an_id() -> None:
    _, told = playing("ask reassign o-0 to=2,1")

    assert shown(told) == [{"completed": 1}, ("o-0", (1, 2), (2, 1), "completed"), {"completed": 1}]
    assert {one.by.request for one in told} == {1}
    assert (told[1].waiting_s, told[1].copying_s, told[1].finishing_s) == (0, 0, 0)


def test_a_move_that_is_redirected_ends_for_the_first_request_and_begins_anew_for_the_second() -> None:
    play, told = playing("ask reassign o-0 to=3,2", "time +5s", "ask reassign o-0 to=4,2", "time +3s")
    play.do("isr o-0 1,2,4", "time +1s")

    moves = [(one.by.request, one.before, one.after, one.outcome, one.copying_s) for one in told if hasattr(one, "at")]

    assert moves == [(1, (1, 2), (3, 2), "superseded", 5), (2, (3, 2), (4, 2), "completed", 3)]


def test_of_a_move_that_an_earlier_leader_began_what_it_alone_knew_is_not_known() -> None:
    play, told = playing("ask reassign reason=disks o-0 to=3,2", "time +5s")
    told.clear()

    play.do("elect", "time +4s", "isr o-0 1,2,3", "time +1s")

    move, ended = told
    assert (move.by.request, move.by.reason, move.by.caller, move.before) == (1, "disks", None, None)
    assert (move.outcome, move.waiting_s) == ("completed", None)
    assert move.copying_s == 9  # its status says since when it copies
    assert dict(ended.counts) == {"completed": 1}


def test_a_move_that_ends_without_a_leader_is_told_and_how_it_went_is_not_known() -> None:
    play, told = playing("ask reassign o-0 to=3,2", "time +10s")
    told.clear()
    play.theatre.machine = None

    play.do(
        'malformed /brokers/topics/o {"version":2,"partitions":{"0":[3,2],"1":[1,2],"2":[1,2]}}', "elect", "time +5s"
    )

    assert shown([one for one in told if one.by.request == 1]) == [("o-0", None, (3, 2), "completed"), {"completed": 1}]
    assert (told[0].waiting_s, told[0].copying_s, told[0].finishing_s) == (None, None, None)


def test_of_a_move_that_is_found_under_way_only_the_stages_that_begin_from_then_on_are_timed() -> None:
    play, told = playing("ask reassign o-0 to=3,2", "time +5s")
    play.theatre.machine = None
    told.clear()

    play.do("remove /admin/reassign_partitions_status/1", "elect", "time +4s", "isr o-0 1,2,3", "time +1s")

    (move,) = [one for one in told if isinstance(one, MoveAccounted)]
    assert (move.by.origin, move.waiting_s, move.copying_s) == ("found under way", None, None)
    assert move.finishing_s is not None


def test_many_lines_are_told_in_several_turns_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duty, "ACCOUNTED_A_TURN", 1)

    _, told = playing("ask reassign o-0 to=2,1 o-1 to=2,1 o-2 to=2,1")

    assert [type(one) for one in told] == [RequestAccounted, *[MoveAccounted] * 3, RequestAccounted]
