"""Asking a running replica."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from controller.__main__ import FAILED, OK, UNREACHABLE, main
from controller.lab.ports import free_port
from metrics.exporter import Status
from tests.unit.metrics.serving import LEADING, LOADING, STANDING_BY, serving


def status_of(now: Status, *arguments: str) -> Result:
    """What is answered about a process that stands like this."""

    async def ask() -> Result:
        async with serving(now) as served:
            return await asyncio.to_thread(CliRunner().invoke, main, ["status", "--url", served.url, *arguments])

    return asyncio.run(ask())


@pytest.mark.parametrize(("now", "code"), [(LEADING, OK), (STANDING_BY, OK), (LOADING, FAILED)])
def test_the_exit_code_says_whether_the_replica_is_ready(now: Status, code: int) -> None:
    assert status_of(now).exit_code == code


def test_a_person_reads_a_table() -> None:
    lines = [[cell.strip() for cell in line.split("│")] for line in status_of(STANDING_BY).stdout.splitlines()]

    assert ["", "phase", "standby", ""] in lines
    assert ["", "controller", "3", ""] in lines
    assert ["", "is leader", "no", ""] in lines


def test_a_program_reads_json() -> None:
    assert json.loads(status_of(LEADING, "--output=json").stdout)["controller_epoch"] == 7


def test_a_replica_that_does_not_answer_is_told_from_one_that_is_not_ready() -> None:
    answer = CliRunner().invoke(main, ["status", "--url", f"http://127.0.0.1:{free_port()}"])

    assert answer.exit_code == UNREACHABLE
    assert "check http.host and http.port" in answer.stderr


@pytest.mark.parametrize("url", ["127.0.0.1:9640", "http://", "nonsense"])
def test_an_address_that_is_none_is_unreachable(url: str) -> None:
    assert CliRunner().invoke(main, ["status", "--url", url]).exit_code == UNREACHABLE
