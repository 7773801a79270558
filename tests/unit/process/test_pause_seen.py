"""Which pause does a process show?"""

from __future__ import annotations

import time

from msgspec.structs import replace

from controller.core.candidacy.events import HolderSeen
from controller.process.pause_seen import PauseSeen
from tests.unit.http.serving import LEADING
from zk_layout.ids import ControllerEpoch
from zk_layout.znodes.pause import BY_HAND, Pause

VACANT = HolderSeen(None, False, ControllerEpoch(1))


def test_a_pause_is_shown_with_who_why_and_since_when_until_its_end_is_seen() -> None:
    seen = PauseSeen()
    seen.note(replace(VACANT, pause=Pause("ann@host", 1_700_000_000_000, "new disks")))
    seen.note(None)  # ZooKeeper does not answer

    status = seen.shown_in(LEADING)
    assert (status.is_paused, status.paused_by, status.paused_since) == (True, "ann@host (new disks)", 1_700_000_000.0)
    assert status.pause is not None

    seen.note(VACANT)
    assert seen.shown_in(LEADING) == LEADING


def test_a_pause_that_does_not_say_since_when_is_shown_since_it_was_seen() -> None:
    seen, before = PauseSeen(), time.time()
    seen.note(replace(VACANT, pause=BY_HAND))
    seen.note(replace(VACANT, pause=BY_HAND))

    assert before <= seen.shown_in(LEADING).paused_since <= time.time()


def test_a_leader_is_paused_when_its_term_knows() -> None:
    seen = PauseSeen()
    seen.note(replace(VACANT, pause=Pause("ann@host", 1)))

    assert not seen.shown_in(LEADING, is_obeyed=False).is_paused
    assert PauseSeen().shown_in(LEADING, is_obeyed=True).is_paused
