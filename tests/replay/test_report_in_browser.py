"""A real browser runs the report's script to its end."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from metrics.replay.commands.report import page, sentence

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
T = 1_790_000_000_000
MOVE = ["or</script>ders", 3, T, T + 9000, "finished", "api", [1, 2], [3, 4], 5000, 3000, 1000, False, 2, 6, None]
STUCK = ["payments", 0, T, None, "unfinished", "legacy", [1], [2], 7000, 0, 0, True, 1, 1, "[2] had to catch up"]

DATA: dict[str, Any] = {
    "span": {"from": T, "to": T + 10_000, "first_zxid": 1, "last_zxid": 255, "events": 99},
    "counts": {"moves": 2, "finished": 1, "stalled": 1, "unfinished": 1, "slowest": {"at": "orders-3", "ms": 9000}},
    "moves": [MOVE, STUCK],
    "pairs": [{"from": 1, "to": 3, "count": 1}],
    "load": [{"broker": 7, "points": [[T, 1, 2], [T + 5000, 2, 3]]}],
    "health": [[T, 1, 0, 2], [T + 9000, 0, 0, 1]],
    "changes": {"from": T, "width": 125, "topics": ["orders"], "buckets": 80, "cells": [[0, 3, 4]]},
    "shortages": [
        {"kind": "leaderless", "on_what": "orders-9", "from": T + 1000, "to": None, "duration_ms": 9000},
    ],
    "controllers": [{"broker": 1, "from": T, "to": None, "controller_epoch": 4, "vacancy_ms": 12, "ended_by": None}],
    "brokers": [{"broker": 7, "from": T, "to": T + 4000, "ended_by": "expire"}],
    "topics": [], "broker_health": [], "znodes": [],
    "growth": [
        {
            "path": "/brokers/topics/orders", "last_bytes": 500_000, "largest_bytes": 800_000, "limit_bytes": 1_048_575,
            "share": 0.76, "writes": 9, "bytes_a_day": 1000.0, "full_at": T + 86_400_000 * 500,
        }
    ],
    "sizes": [{"path": "/brokers/topics/orders", "points": [[T, 400_000], [T + 4000, 500_000]]}],
    "damage": [], "seconds": {"read": 0.1},
    "audit": [{"verdict": "listed", "what": "state", "rule": "isr", "writes": 3, "example": "why"}],
    "findings": [
        {
            "zxid": 9, "at": T, "what": "state", "on_what": "o-1", "verdict": "listed", "rule": "isr", "why": "w",
            "ours": "", "session": "-1", "broker": None, "host": None, "controller_epoch": 4,
        }
    ],
}  # fmt: skip


def drawn(home: Path, at: str = "") -> str:
    """The report in the browser, after its script has run."""
    report = home / "report.html"
    report.write_text(page({**DATA, "sentence": sentence(DATA)}))
    return re.sub(r"<script>.*</script>", "", in_browser(home, report.as_uri() + at), flags=re.DOTALL)


def in_browser(home: Path, address: str) -> str:
    """A page after its scripts have run."""
    return subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}/profile",
            "--virtual-time-budget=3000", "--dump-dom", address,
        ],
        capture_output=True, text=True, timeout=90, check=True,
    ).stdout  # fmt: skip


# Chromium's own window is never narrower than 500 pixels.
NARROW = """<iframe width="{width}" srcdoc="{report}"></iframe><script>
onload = () => {{ const page = document.querySelector("iframe").contentDocument.documentElement
  document.body.dataset.wide = page.scrollWidth + " of " + page.clientWidth }}</script>"""


@pytest.mark.parametrize("width", [360, 420, 1000])
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_on_a_narrow_screen_nothing_lies_beyond_the_edge(tmp_path: Path, width: int) -> None:
    report = html.escape(page({**DATA, "sentence": sentence(DATA)}))
    (tmp_path / "outer.html").write_text(NARROW.format(width=width, report=report))

    shown = re.search(r'data-wide="(\d+) of (\d+)"', in_browser(tmp_path, (tmp_path / "outer.html").as_uri()))

    assert shown is not None
    assert width - 20 <= int(shown[2]) <= width
    assert int(shown[1]) <= int(shown[2])


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_report_is_drawn_to_its_end(tmp_path: Path) -> None:
    shown = drawn(tmp_path)

    assert "2 moves, 1 stalled, 1 unfinished, the slowest, orders-3, took 9 s; 0 fail-overs; 0 violations" in shown
    assert "/brokers/topics/orders fills 76% of what ZooKeeper takes" in shown
    assert "2 of 2 moves" in shown
    assert "[2] had to catch up" in shown
    assert "none: every file was read" in shown
    assert re.search(r'id="k-growth".*/brokers/topics/orders', shown)
    assert "or&lt;/script&gt;ders-3" in shown
    assert re.search(r'id="k-load".*broker 7', shown)
    assert "orders-9" in shown
    assert "session 0xffffffffffffffff" in shown
    assert re.search(r'id="t-legend".*payments.*id="t-moves"', shown, re.DOTALL)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_an_address_with_times_shows_only_these(tmp_path: Path) -> None:
    """One of the two moves has ended by then."""
    shown = drawn(tmp_path, "#2026-09-21T14:13:29.500Z/2026-09-21T14:13:30Z")

    assert "1 of 2 moves" in shown
    assert not re.search(r'id="t-moves".*ders-3.*id="health"', shown, re.DOTALL)
