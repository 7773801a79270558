"""When has a client recovered from the controller's death, and how does the page show it?"""

from __future__ import annotations

from tests.clients.page import recovery_section, section_of, with_section
from tests.clients.recovery import DEAD, RESTARTED, Attempt, Handover, Recoveries, Recovery, judge
from tests.clients.stage import NATIVE, OURS

BEFORE = Attempt(0, 900, None)


def seen(recovered_s: float | None, leader: str = OURS, then: str = DEAD) -> Recovery:
    return Recovery("sarama", leader, then, recovered_s, 3, 9.0, ("refused",))


def test_a_request_that_was_under_way_does_not_count_as_recovery() -> None:
    attempts = [BEFORE, Attempt(990, 3000, None), Attempt(3100, 3200, None)]
    assert judge(attempts, killed_ms=1000, until_ms=5000) == (2.2, 0, 2.1)


def test_failures_after_recovery_are_not_counted_but_silence_is() -> None:
    attempts = [BEFORE, Attempt(1100, 1200, "no"), Attempt(1300, 1400, None), Attempt(1500, 1600, "no")]
    assert judge(attempts, killed_ms=1000, until_ms=9000) == (0.4, 1, 7.6)


def test_the_page_shows_medians_and_who_never_recovered() -> None:
    recoveries = Recoveries(
        "2026-11-23",
        "3.9.1",
        (seen(2.0), seen(None), seen(3.0), seen(None, NATIVE)),
        (Handover(OURS, DEAD, 6.2), Handover(NATIVE, RESTARTED, 5.0)),
    )
    section = recovery_section(recoveries)
    assert "| sarama | – | – | 3.0 s, not in 1 of 3; 3 failed; silent 9.0 s | not within 40 s; 3 failed" in section
    assert "| *the next controller is elected* | – | 5.0 s | 6.2 s | – |" in section


def test_a_page_keeps_or_renews_its_section() -> None:
    page = "# Clients\n\ntable\n\n## The operations\n\nrows\n"
    once = with_section(page, recovery_section(Recoveries("d", "3.9.1", (), ())))
    assert section_of(page) == ""
    assert section_of(once).startswith("## After SIGKILL")
    assert with_section(once, "## After SIGKILL\n\nnew\n\n") == with_section(page, "## After SIGKILL\n\nnew\n\n")
