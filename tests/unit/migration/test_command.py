"""`migration --check` as a person types it, and as a program reads it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from controller.__main__ import main
from controller.commands import migration
from controller.commands.common import FAILED, MISUSED, OK
from controller.commands.migration import LOOK_AT_IT
from controller.migration import findings
from controller.migration.findings import Finding, Trap
from tests.unit.migration.world import World, ready


def checked(monkeypatch: pytest.MonkeyPatch, world: World, *options: str) -> Result:
    """The command in this world, whose ZooKeeper has no port."""
    monkeypatch.setattr(migration, "at_zookeeper", lambda *_: world.look())
    return CliRunner().invoke(main, ["migration", "--check", "--zookeeper", "simulated:2181", *options])


def test_a_trap_is_an_exit_code_and_says_where_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    run = checked(monkeypatch, ready().write("/migration", b""))

    assert run.exit_code == FAILED
    lines = run.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("WRONG    migration-znode"))
    assert lines[at].endswith("[/migration]")
    assert "KAFKA-19480" in lines[at + 1]
    assert lines[-1] == "1 in the way of a migration; change that first, and check again"


def test_without_a_trap_it_is_another_exit_code_and_what_is_unknown_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    run = checked(monkeypatch, ready())

    assert run.exit_code == LOOK_AT_IT
    assert "unknown  clients" in run.stdout
    assert "WRONG" not in run.stdout
    assert run.stdout.splitlines()[-1] == "nothing is in the way; see what is unknown"


def test_what_is_to_do_on_the_way_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    run = checked(monkeypatch, ready().write("/admin/delete_topics/old", b""))

    assert run.exit_code == LOOK_AT_IT
    assert "nothing is in the way; 1 to do in the course of a migration" in run.stdout


def test_a_program_reads_json(monkeypatch: pytest.MonkeyPatch) -> None:
    run = checked(monkeypatch, ready().stops(3), "--output", "json")

    found = json.loads(run.stdout)
    assert (found["phase"], found["result"], run.exit_code) == ("none", "stop", FAILED)
    assert {one["trap"] for one in found["findings"]} == {trap.value for trap in Trap}
    assert all(set(one) == {"trap", "result", "text", "where", "hint"} for one in found["findings"])


def test_a_cluster_with_nothing_to_do_and_nothing_unknown_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "judge", lambda _: (Finding(Trap.PHASE, findings.Result.OK, "all is well"),))

    assert checked(monkeypatch, ready()).exit_code == OK


def test_a_wrong_option_is_named() -> None:
    odd = CliRunner().invoke(main, ["migration", "--check", "--zookeeper", "z:1", "--quorum-ids", "3000,k2"])

    assert odd.exit_code == MISUSED
    assert "3000,k2" in odd.stderr
    assert CliRunner().invoke(main, ["migration", "--zookeeper", "z:1"]).exit_code == MISUSED
    assert CliRunner().invoke(main, ["migration", "--check"]).exit_code == MISUSED
