"""What a log line looks like."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SCRIPT = """
import logging, structlog
from controller import logs
log = structlog.get_logger("controller.zk.session")
logs.configure({level!r}, {style!r})
{body}
"""


def logged(body: str, *, level: str = "info", style: str = "json") -> str:
    """What a process writes to standard error."""
    script = SCRIPT.format(level=level, style=style, body=body)
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout == ""
    return answer.stderr


def records(body: str, *, level: str = "info") -> list[dict[str, Any]]:
    """The lines of a machine's log."""
    return [json.loads(line) for line in logged(body, level=level).splitlines()]


def test_a_machine_gets_one_object_a_line_with_the_same_fields_first() -> None:
    (line,) = records("log.info('standing by', broker=900)")

    assert list(line) == ["time", "level", "event", "component", "broker"]
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "event": "standing by", "component": "zk.session", "broker": 900}


def test_every_line_of_a_term_has_its_epoch() -> None:
    lines = records("logs.term(7); log.info('a'); logs.term(None); log.info('b')")

    assert [line.get("epoch") for line in lines] == [7, None]


def test_the_standard_librarys_loggers_go_the_same_way() -> None:
    (line,) = records("logging.getLogger('kazoo.client').warning('Connection %s', 'dropped')")

    assert (line["component"], line["level"], line["event"]) == ("kazoo.client", "warning", "Connection dropped")


def test_libraries_that_tell_every_step_are_heard_only_when_something_is_wrong() -> None:
    assert records("logging.getLogger('kazoo.client').info('Connecting')", level="debug") == []


def test_what_is_less_severe_than_wanted_is_not_logged() -> None:
    assert [line["event"] for line in records("log.info('a'); log.warning('b')", level="warning")] == ["b"]


def test_a_person_gets_plain_lines_where_there_is_no_terminal() -> None:
    line = logged("log.warning('cannot reach ZooKeeper', reason='refused')", style="text")

    assert "\x1b" not in line
    assert "cannot reach ZooKeeper" in line
    assert "reason=refused" in line
    assert "component=zk.session" in line


def test_without_a_terminal_machines_are_who_reads() -> None:
    assert json.loads(logged("log.info('a')", style="auto"))["event"] == "a"


def test_secrets_are_not_logged() -> None:
    written = logged("log.info('connecting', sasl_password='abc', jaas_config='abc')")

    assert "abc" not in written
    assert json.loads(written)["sasl_password"] == "[hidden]"


FAILING = """
def fail(password):
    raise OSError('broken')
try:
    fail('ab' + 'c')
except OSError:
    log.exception('it broke')
"""


def test_a_traceback_does_not_show_what_variables_held() -> None:
    for style in ("json", "text"):
        written = logged(FAILING, style=style)
        assert "broken" in written
        assert "fail" in written
        assert "abc" not in written
