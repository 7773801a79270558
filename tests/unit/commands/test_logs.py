"""What a log line looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import logging, structlog
from controller import logs
log = structlog.get_logger("controller.zk.session")
logs.configure({level!r}, {style!r})
{body}
"""


def logged(body: str, *, level: str = "info", style: str = "json") -> str:
    """A process's output on standard error."""
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


def test_control_characters_of_a_znode_or_client_do_not_reach_a_terminal_or_make_lines_of_their_own() -> None:
    hostile = (
        "log.warning('bad\\x1b[2Jname\\n2026 [info] all is well', path='/a\\x9b\\r\\u202eb\\udc80', kind='a\\x00')"
    )
    text = logged(hostile, style="text")
    (line,) = text.splitlines()

    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in line)
    assert "bad\\x1b[2Jname\\n2026 [info] all is well" in line
    assert "path=/a\\x9b\\r\\u202eb\\udc80" in line
    assert json.loads(logged(hostile))["path"] == "/a\x9b\r\u202eb\udc80"


def test_a_line_in_an_errors_message_does_not_look_like_a_line_of_the_log() -> None:
    written = logged(FAILING.replace("'broken'", "'broken\\n2026-01-01T00:00:00Z [info ] all is well'"), style="text")

    assert [line for line in written.splitlines()[1:] if not line.startswith("    ")] == []


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_line_is_never_very_long(style: str) -> None:
    for body in (
        "log.warning('frame', data='x' * 5_000_000)",
        "log.warning('x' * 5_000_000)",
        "log.warning('names', names=['x' * 100] * 50_000)",
        "log.warning('many', **{f'k{n}': 'x' * 3_000 for n in range(30)})",
        FAILING.replace("'broken'", "'broken' * 1_000_000"),
        "try:\n    exec('def f(): f()\\nf()')\nexcept RecursionError:\n    log.exception('deep')",
        "logging.getLogger('asyncio').error('y' * 5_000_000)",
    ):
        written = logged(body, style=style)
        assert 20 < len(written) < 40_000, body
        if style == "json":
            json.loads(written)


def test_a_flood_of_lines_of_one_kind_is_counted_and_others_go_on() -> None:
    lines = records(
        "import time\n"
        "from controller.logs import floods\n"
        "floods.Floods.__init__.__defaults__ = (5, 1.0)\n"
        "logs.configure('info', 'json')\n"
        "for n in range(1000):\n"
        "    log.warning(f'bad frame {n}', kind='frames')\n"
        "    logging.getLogger('kazoo.x').error('%d', n)\n"
        "log.info('standing by')\n"
        "time.sleep(3)"
    )
    said = [line["event"] for line in lines]

    assert said[:10:2] == [f"bad frame {n}" for n in range(5)]
    assert said[1:10:2] == [str(n) for n in range(5)]
    assert said[10] == "standing by"
    assert sorted(said[11:]) == [
        "995 more log lines like this within 10 s: kazoo.x: %d",
        "995 more log lines like this within 10 s: zk.session: frames",
    ]


UNREAD = """
import logging, os, sys, time, structlog
from controller import logs
log = structlog.get_logger("controller.zk.session")
logs.configure("debug", "json")
longest = 0.0
for n in range(30_000):
    began = time.monotonic()
    log.debug("commit", why="x" * 100, number=n)
    longest = max(longest, time.monotonic() - began)
print(longest, sum(logs.lost().values()), flush=True)
{afterwards}
"""


def test_an_unread_log_delays_nothing_not_even_the_end() -> None:
    reading, writing = os.pipe()
    began = time.monotonic()
    script = UNREAD.format(afterwards="raise ValueError('at the end')")
    answer = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=writing, timeout=60, check=False
    )
    took_s = time.monotonic() - began
    os.close(reading)
    os.close(writing)

    longest, dropped = map(float, answer.stdout.split())
    assert answer.returncode == 1
    assert longest < 1.0
    assert dropped > 10_000
    assert took_s < 30


def test_a_log_that_is_read_again_says_what_is_missing() -> None:
    reading, writing = os.pipe()
    script = UNREAD.format(afterwards="sys.stdin.readline(); log.info('back'); time.sleep(1); log.info('end')")
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writing
    ) as process:
        os.close(writing)
        assert process.stdout is not None
        assert process.stdin is not None
        dropped = int(process.stdout.readline().split()[1])
        process.stdin.write(b"\n")
        process.stdin.flush()
        with os.fdopen(reading, "rb") as log:
            lines = [json.loads(line) for line in log]

    numbers = [line["number"] for line in lines if line["event"] == "commit"]
    assert len(numbers) == 30_000 - dropped
    assert numbers == list(range(len(numbers)))
    said = [line["event"] for line in lines if line["event"] != "commit"]
    missing = [line for line in said if "are missing here" in line]
    assert sum(int(line.split()[0]) for line in missing) >= dropped
    assert said[-1] == "end"


def test_a_log_whose_reader_has_gone_is_no_reason_to_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    script = UNREAD.format(afterwards="print('still here')")
    answer = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=writing, timeout=60, check=False
    )
    os.close(writing)

    assert answer.returncode == 0
    assert b"still here" in answer.stdout


def test_the_level_can_change_while_a_process_runs() -> None:
    body = (
        "log.debug('a'); logs.set_level('debug'); log.debug('b'); logging.getLogger('zk').debug('c');"
        "logs.set_level('error'); log.warning('d'); logging.getLogger('kazoo').warning('e'); log.error('f')"
    )

    assert [line["event"] for line in records(body)] == ["b", "c", "f"]


def test_a_logger_with_a_level_of_its_own_keeps_it() -> None:
    body = (
        "own = logging.getLogger('own'); logs.set_level_of('own', 'off'); own.critical('a');"
        "logs.set_level_of('own', 'debug'); own.debug('b'); logs.set_level('error'); own.debug('c')"
    )

    assert [line["event"] for line in records(body)] == ["b", "c"]
