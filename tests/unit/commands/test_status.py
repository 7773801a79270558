"""Asking a running replica."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from controller.__main__ import main
from controller.commands.common import FAILED, MISUSED, OK, UNREACHABLE
from controller.commands.handover import Leadership, leadership
from controller.core.candidacy.migrating import MigrationPhase
from controller.http.access import HttpAccess
from controller.http.status import Status
from controller.lab.ports import free_port
from controller.zk.protocol import Node
from tests.unit.http.serving import LEADING, LOADING, STANDBY, serving
from tests.unit.http.test_access import PASSWORD, write
from zk_layout.facts import Stat
from zk_layout.ids import BrokerId, ControllerEpoch, ZnodeVersion, Zxid
from zk_layout.znodes.release import Release, ReleaseAddress, encode
from zk_layout.znodes.replicas import Replica


def status_of(now: Status, *arguments: str) -> Result:
    """The answer about a process in this state."""

    async def ask() -> Result:
        async with serving(now) as served:
            return await asyncio.to_thread(CliRunner().invoke, main, ["status", "--url", served.url, *arguments])

    return asyncio.run(ask())


@pytest.mark.parametrize(("now", "code"), [(LEADING, OK), (STANDBY, OK), (LOADING, FAILED)])
def test_the_exit_code_says_whether_the_replica_is_ready(now: Status, code: int) -> None:
    assert status_of(now).exit_code == code


def test_a_person_reads_a_table() -> None:
    lines = [[cell.strip() for cell in line.split("│")] for line in status_of(STANDBY).stdout.splitlines()]

    assert ["", "phase", "standby", ""] in lines
    assert ["", "controller", "3", ""] in lines
    assert ["", "is leader", "no", ""] in lines


def test_a_program_reads_json() -> None:
    assert json.loads(status_of(LEADING, "--output=json").stdout)["controller_epoch"] == 7


def test_a_replica_that_does_not_answer_is_distinguished_from_one_that_is_not_ready() -> None:
    answer = CliRunner().invoke(main, ["status", "--url", f"http://127.0.0.1:{free_port()}"])

    assert answer.exit_code == UNREACHABLE
    assert "check http.host and http.port" in answer.stderr


def test_a_replica_that_wants_tls_and_a_user_is_asked_with_a_file(tmp_path: Path) -> None:
    access = HttpAccess(write(tmp_path, users={"ann": PASSWORD}, tls={}))
    (tmp_path / "password").write_text(PASSWORD + "\n")
    right = tmp_path / "client.yml"
    right.write_text("basic_auth: {username: ann, password_file: password}\ntls_config: {ca_file: server.pem}\n")
    without_user, bad = tmp_path / "without_user.yml", tmp_path / "bad.yml"
    without_user.write_text("tls_config: {insecure_skip_verify: true}\n")
    bad.write_text("basic_auth: {user: ann}\n")

    async def ask(file: Path | None, scheme: str = "https") -> Result:
        async with serving(LEADING, access=access) as served:
            url = served.url.replace("http", scheme, 1)
            given = [] if file is None else ["--http.config.file", str(file)]
            return await asyncio.to_thread(CliRunner().invoke, main, ["status", "--url", url, *given])

    assert asyncio.run(ask(right)).exit_code == OK
    refused = asyncio.run(ask(without_user))
    assert (refused.exit_code, "answers 401 Unauthorized; give a user" in refused.stderr) == (UNREACHABLE, True)
    unencrypted = asyncio.run(ask(None, "http"))
    assert (unencrypted.exit_code, "https://" in unencrypted.stderr) == (UNREACHABLE, True)
    misused = asyncio.run(ask(bad))
    assert (misused.exit_code, "unknown field `user`" in misused.stderr) == (MISUSED, True)


def test_an_address_without_a_scheme_is_one_of_http() -> None:
    async def ask() -> Result:
        async with serving(LEADING) as served:
            bare = served.url.removeprefix("http://")
            return await asyncio.to_thread(CliRunner().invoke, main, ["status", "--url", bare])

    assert asyncio.run(ask()).exit_code == OK


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--url", "a:1", "--zookeeper", "b:2"), "give --url, or --zookeeper, or --config"),
        (("--zookeeper", "a:1", "--config", "{config}"), "give either --zookeeper or --config"),
        (("--config", "{config}"), "zookeeper.connect"),
    ],
)
def test_what_is_asked_must_be_clear(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    config = tmp_path / "controller.properties"
    config.write_text("")

    answer = CliRunner().invoke(main, ["status", *(each.format(config=config) for each in arguments)])

    assert answer.exit_code == MISUSED
    assert said in answer.stderr


LED = Leadership(
    BrokerId(902),
    is_ours=True,
    epoch=ControllerEpoch(8),
    released=None,
    replicas={
        BrokerId(901): Replica("standby", True, 1_700_000_000_000, "watching /controller", "0.1.0", "h1", "h1:9640"),
        BrokerId(902): Replica("active", True, 1_700_000_000_000, "loaded in 0.10 s", "0.1.0", "h2", "h2:9640"),
        BrokerId(903): Replica("standby", False, 1_700_000_000_000, f"[1] {'very ' * 60}long", "0.1.0", "h3", ""),
        BrokerId(904): None,
    },
)


@pytest.mark.parametrize(
    ("leadership", "code"),
    [
        (LED, OK),
        (replace(LED, controller=BrokerId(903)), FAILED),
        (replace(LED, controller=BrokerId(1), is_ours=False), FAILED),
        (replace(LED, controller=None, is_ours=False, replicas={}), FAILED),
    ],
)
def test_of_all_replicas_the_exit_code_says_whether_one_leads(
    leadership: Leadership, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.commands.status.at_zookeeper", lambda *_: leadership)

    answer = CliRunner().invoke(main, ["status", "--zookeeper", "zk1:2181"])

    assert answer.exit_code == code
    for number in leadership.replicas:
        assert str(number) in answer.stdout


@pytest.mark.parametrize(
    ("leadership", "is_said"),
    [
        (LED, False),
        (replace(LED, replicas={**LED.replicas, BrokerId(901): None}), True),
        (
            replace(LED, controller=BrokerId(1), is_ours=False, replicas={BrokerId(902): LED.replicas[BrokerId(902)]}),
            False,
        ),
    ],
    ids=["two are ready", "one is ready", "a broker leads"],
)
def test_a_leader_that_no_other_replica_could_follow_is_pointed_out(
    leadership: Leadership, is_said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.commands.status.at_zookeeper", lambda *_: leadership)

    answer = CliRunner().invoke(main, ["status", "--zookeeper", "zk1:2181"])

    assert ("only one replica is ready" in answer.stdout) is is_said


def test_a_migration_is_shown_with_its_phase_and_who_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    led_by_kraft = replace(LED, controller=BrokerId(3000), is_ours=False, migration=MigrationPhase.DUAL_WRITE)
    monkeypatch.setattr("controller.commands.status.at_zookeeper", lambda *_: led_by_kraft)

    text = CliRunner().invoke(main, ["status", "--zookeeper", "zk1:2181"]).stdout
    found = json.loads(CliRunner().invoke(main, ["status", "--zookeeper", "zk1:2181", "--output=json"]).stdout)

    assert "/controller: 3000, a KRaft controller" in text
    assert "migration to KRaft: dual write" in text
    assert found["migration"] == "dual write"


AT = datetime.fromtimestamp(1_700_000_000).astimezone().isoformat(" ", "seconds")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (
            encode(Release("ann@h", 1_700_000_000_000, "the hosts are upgraded")),
            f"by ann@h at {AT}: the hosts are upgraded",
        ),
        (encode(Release("ann@h", 1_700_000_000_000)), f"by ann@h at {AT}\n"),
        (b"by hand", "by an unknown user: /kafka_zk_controller/released was not written by `release`"),
    ],
)
def test_a_release_is_shown_with_its_reason_and_time(data: bytes, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ensemble:
        """Where only the release znode exists."""

        async def get(self, path: str) -> tuple[Node | None, int]:
            return (Node(data, Stat(Zxid(1), Zxid(1), ZnodeVersion(0))) if path == ReleaseAddress.path else None), 1

        async def children(self, _: str) -> tuple[None, int]:
            return None, 1

    found = asyncio.run(leadership(Ensemble()))  # type: ignore[arg-type]  # the few reads that are made
    monkeypatch.setattr("controller.commands.status.at_zookeeper", lambda *_: found)

    answer = CliRunner().invoke(main, ["status", "--zookeeper", "zk1:2181"])

    assert f"released to Kafka's own controllers {shown}" in answer.stdout
    assert json.loads(CliRunner().invoke(main, ["status", "--zookeeper=a", "--output=json"]).stdout)["released"]["by"]


def test_no_value_is_cut_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.commands.status.at_zookeeper", lambda *_: LED)

    answer = CliRunner().invoke(main, ["status", "--zookeeper", "zk1:2181"])

    assert f"[1] {'very ' * 60}long" in answer.stdout


@pytest.mark.parametrize("url", ["127.0.0.1:1", "http://", "nonsense"])
def test_an_address_that_is_none_is_unreachable(url: str) -> None:
    assert CliRunner().invoke(main, ["status", "--url", url]).exit_code == UNREACHABLE
