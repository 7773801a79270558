"""What does the log of decisions say, at which level, and how much of it?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.monitoring.authorizer_log import LOGGER, MOST_A_SECOND, MOST_PRINCIPALS

SCRIPT = """
from pathlib import Path
from controller import logs
from controller.core.messages.effects import Decided, Decision
from controller.core.messages.requests import Caller
from controller.monitoring import authorizer_log
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

class Timer:
    def cancel(self): pass

rings = []
def ring(_, what):
    rings.append(what)
    return Timer()

def decided(principal, *names, is_allowed=False, untold=0, request="CreateTopics"):
    topics = [ResourcePattern(ResourceType.TOPIC, name) for name in names]
    decisions = tuple(Decision(AclOperation.CREATE, topic, is_allowed, "no ACL found") for topic in topics)
    return Decided(Caller("OUTSIDE", "10.0.0.2", "tool", principal), request, decisions, untold)

logs.configure({level!r}, "json")
logs.separate(authorizer_log.LOGGER, {own!r}, Path({file!r}) if {file!r} else None, "json")
log = authorizer_log.AccessLog(ring, authorizer_log.no_reason)
{body}
"""


def logged(body: str, *, level: str = "info", own: str = "info", file: str = "") -> list[dict[str, Any]]:
    """A process's output."""
    script = SCRIPT.format(level=level, own=own, file=file, body=body)
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout == ""
    return [json.loads(line) for line in (Path(file).read_text() if file else answer.stderr).splitlines()]


def test_a_refusal_is_logged_at_info_as_kafka_words_it_with_the_reason() -> None:
    (line,) = logged('log.tell(decided("User:bob", "orders"))')

    assert (line["component"], line["level"]) == (LOGGER, "info")
    assert line["event"] == (
        "Principal = User:bob is Denied operation = Create from host = 10.0.0.2 on resource = Topic:LITERAL:orders "
        "for request = CREATE_TOPICS with resourceRefCount = 1 based on rule no ACL found"
    )
    told_apart = {
        key: line[key] for key in ("principal", "host", "operation", "resource", "request", "decision", "why")
    }
    assert told_apart == {
        "principal": "User:bob",
        "host": "10.0.0.2",
        "operation": "Create",
        "resource": "Topic:LITERAL:orders",
        "request": "CREATE_TOPICS",
        "decision": "Denied",
        "why": "no ACL found",
    }


@pytest.mark.parametrize(
    ("level", "own", "levels"),
    [
        ("info", "info", ["info"]),
        ("error", "info", ["info"]),  # its level is its own
        ("info", "debug", ["info", "debug"]),
        ("debug", "info", ["info"]),
        ("debug", "off", []),
    ],
)
def test_what_is_allowed_is_logged_at_debug_by_a_level_of_its_own(level: str, own: str, levels: list[str]) -> None:
    body = 'log.tell(decided("User:bob", "a")); log.tell(decided("User:bob", "b", is_allowed=True))'

    assert [line["level"] for line in logged(body, level=level, own=own)] == levels


def test_its_lines_may_have_a_file_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "authorizer.log"
    file.write_text('{"event": "earlier"}\n')

    lines = logged('log.tell(decided("User:bob", "a"))', file=str(file))

    assert [line["event"][:20] for line in lines] == ["earlier", "Principal = User:bob"]
    assert logged('logs._log.info("b")', file=str(file)) == lines  # lines of other loggers are not in it


def test_so_many_a_second_and_then_how_many_of_whom() -> None:
    body = """
log.tell(decided("User:bob", *(f"t{n}" for n in range(60)), untold=5))
for n in range(30):
    log.tell(decided(f"User:{n}", "x"))
assert len(rings) == 1
rings[0]()
log.tell(decided("User:bob", "later"))
"""
    lines = logged(body)

    *ones, summed, later = lines
    assert len(ones) == MOST_A_SECOND
    assert summed["event"] == "45 more denied within a second"
    assert (summed["principals"]["User:bob"], summed["principals"]["others"]) == (15, 30 - (MOST_PRINCIPALS - 1))
    assert "on resource = Topic:LITERAL:later" in later["event"]


def test_a_name_that_looks_like_another_line_stays_one_line() -> None:
    (line,) = logged('log.tell(decided("User:bob\\nPrincipal = User:eve is Allowed", "a"))')

    assert line["principal"] == "User:bob\nPrincipal = User:eve is Allowed"


def test_the_end_of_the_process_sums_up() -> None:
    lines = logged('log.tell(decided("User:bob", "a", untold=3)); log.close()')

    assert lines[-1]["event"] == "3 more denied within a second"
