"""Asking a running replica."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller.__main__ import FAILED, MISUSED, OK, UNREACHABLE, main
from controller.lab.ports import free_port
from metrics.exporter import Status
from tests.unit.metrics.serving import LEADING, LOADING, STANDING_BY, serving

REPLICA = "broker.id=901\nzookeeper.connect=zk1:2181\nlisteners=PLAINTEXT://127.0.0.1:9095"


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


def test_an_address_without_a_scheme_is_one_of_http() -> None:
    async def ask() -> Result:
        async with serving(LEADING) as served:
            bare = served.url.removeprefix("http://")
            return await asyncio.to_thread(CliRunner().invoke, main, ["status", "--url", bare])

    assert asyncio.run(ask()).exit_code == OK


def test_the_properties_file_of_a_replica_says_where_it_answers(tmp_path: Path) -> None:
    async def ask() -> Result:
        async with serving(LEADING) as served:
            config = tmp_path / "controller.properties"
            port = served.url.rpartition(":")[2]
            config.write_text(f"{REPLICA}\nhttp.port={port}\n")
            return await asyncio.to_thread(CliRunner().invoke, main, ["status", "--config", str(config)])

    assert asyncio.run(ask()).exit_code == OK


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "zookeeper.connect"),
        (f"{REPLICA}\nhttp.port=0", "http.port is 0"),
    ],
)
def test_a_file_that_names_no_address_is_a_usage_error(lines: str, said: str, tmp_path: Path) -> None:
    config = tmp_path / "controller.properties"
    config.write_text(lines)

    answer = CliRunner().invoke(main, ["status", "--config", str(config)])

    assert answer.exit_code == MISUSED
    assert said in answer.stderr


@pytest.mark.parametrize("url", ["127.0.0.1:1", "http://", "nonsense"])
def test_an_address_that_is_none_is_unreachable(url: str) -> None:
    assert CliRunner().invoke(main, ["status", "--url", url]).exit_code == UNREACHABLE
