"""`browse` shows what ZooKeeper held at a time, `--diff` what changed between two times; never a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metrics.replay.commands.cli import replay
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import survey
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

NATIVE = Path(__file__).parents[1] / "fixtures" / "native"
LOG = str(NATIVE / "kafka-2.4.1")

SALT, HMAC, PASSWORD = "c2FsdA", "aG1hYw==", "encrypted:keyLength:128"
SCRAM = f"salt={SALT},stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=%d"


def config(**settings: str) -> bytes:
    return json.dumps({"version": 1, "config": {k.replace("_", "."): v for k, v in settings.items()}}).encode()


def user(iterations: int, **quotas: str) -> bytes:
    return json.dumps({"version": 1, "config": {"SCRAM-SHA-256": SCRAM % iterations, **quotas}}).encode()


def rights(*principals: str) -> bytes:
    entries = [{"principal": p, "permissionType": "Allow", "operation": "Read", "host": "*"} for p in principals]
    return json.dumps({"version": 1, "acls": entries}).encode()


BEFORE = {
    "/config": b"", "/config/topics": b"", "/config/users": b"", "/config/brokers": b"", "/config/clients": b"",
    "/kafka-acl": b"", "/kafka-acl/Topic": b"", "/delegation_token": b"", "/delegation_token/tokens": b"",
    "/config/topics/orders": config(retention_ms="1000"),
    "/config/users/ann%40x": user(4096, producer_byte_rate="1"),
    "/config/brokers/<default>": config(listener_name_a_ssl_keystore_password=PASSWORD),
    "/kafka-acl/Topic/orders": rights("User:ann"),
    "/feature": b'{"version":2,"status":1,"features":{"metadata.version":1}}',
}  # fmt: skip
AFTER = {
    "/config/topics/orders": config(retention_ms="2000", cleanup_policy="compact"),
    "/config/users/ann%40x": user(8192, producer_byte_rate="5"),
    "/config/brokers/<default>": config(listener_name_a_ssl_keystore_password=PASSWORD + "9"),
    "/config/clients/app": config(consumer_byte_rate="7"),
    "/kafka-acl/Topic/orders": rights("User:bob"),
    "/delegation_token/tokens/t1": json.dumps({"owner": "User:ann", "hmac": HMAC}).encode(),
    "/feature": b'{"version":2,"status":1,"features":{"metadata.version":3}}',
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log that creates the former state, and then the later one."""
    steps = [(ops.CREATE, zk.create(path, data)) for path, data in BEFORE.items()]
    for path, data in AFTER.items():
        steps.append(
            (ops.SET_DATA, zk.set_data(path, data, 1)) if path in BEFORE else (ops.CREATE, zk.create(path, data))
        )
    bodies = [zk.header(zxid, op, time_ms=1000 * zxid) + body for zxid, (op, body) in enumerate(steps, 1)]
    (tmp_path / "log.1").write_bytes(zk.log(*bodies))
    return tmp_path


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(replay, [*arguments])


def browsed(path: str, *commands: str, when: str | None = None) -> list[str]:
    runs = [part for command in commands for part in ("--run", command)]
    shown = asked("browse", path, *runs, *(("--as-of", when) if when else ()))
    assert shown.exit_code == 0, shown.output
    return shown.stdout.splitlines()


def test_the_znodes_of_a_time_are_listed_shown_and_searched() -> None:
    assert browsed(LOG, "ls /config", when="0xaa") == ["brokers", "changes/", "clients", "topics/", "users"]
    assert browsed(LOG, "cat /config/topics/payments", when="0xaa") == [
        '{"version":1,"config":{"min.insync.replicas":"2"}}'
    ]
    assert browsed(LOG, "find /brokers/topics *orders*0/state", when="0xaa") == [
        "/brokers/topics/orders/partitions/0/state"
    ]
    assert browsed(LOG, "find /config/topics", "cd /config/topics", "find", when="0xaa") == 2 * [
        "/config/topics", "/config/topics/gone", "/config/topics/orders", "/config/topics/payments",
    ]  # fmt: skip
    assert browsed(LOG, "find /config payments", "cd /config/topics", "find payments") == 2 * [
        "/config/topics/payments"
    ]
    assert browsed(LOG, "grep insync /config", when="0xaa")[-1].startswith("/config/topics/payments: {")
    assert browsed(LOG, "cd /brokers/ids", "pwd", "ls", when="0xaa") == ["/brokers/ids", "1", "2", "3"]
    assert browsed(LOG, "tree /config/topics")[:2] == ["/config/topics", "  orders"]
    assert "version       0" in "\n".join(browsed(LOG, "stat /controller"))


def test_a_state_is_that_of_its_time() -> None:
    assert "  gone" in browsed(LOG, "tree /config/topics", when="0xaa")
    assert "  gone" not in browsed(LOG, "tree /config/topics")


def test_a_program_gets_a_value_a_line() -> None:
    shown = asked("browse", LOG, "--json", "--run", "cat /controller_epoch", "--run", "ls /brokers")

    assert [json.loads(line) for line in shown.stdout.splitlines()] == [
        {"path": "/controller_epoch", "content": 2}, "ids", "seqid", "topics",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("cat /nowhere", "there is no znode /nowhere"),
        ("find /nowhere", "there is no znode /nowhere"),
        ("rm /controller", "there is no command rm; there are ls, cat, stat, find, grep, tree, cd, pwd, help"),
        ("grep (", "( is no regular expression"),
        ("cat 'a", "cat 'a: No closing quotation"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(command: str, answer: str) -> None:
    shown = asked("browse", LOG, "--run", command)

    assert shown.exit_code == 1
    assert f"Error: {answer}" in shown.output


def test_a_person_may_go_on_after_a_mistake() -> None:
    shown = CliRunner().invoke(replay, ["browse", LOG], input="cat /nowhere\npwd\nexit\npwd\n")

    assert (shown.exit_code, shown.stdout) == (0, "/\n")
    assert "there is no znode /nowhere" in shown.stderr


def test_no_command_shows_a_secret(logs: Path) -> None:
    said = "\n".join(browsed(str(logs), "grep .", "cat /config/users/ann%40x"))

    assert "iterations=8192" in said
    assert not [secret for secret in (SALT, HMAC, PASSWORD, "c3RvcmVk", "c2VydmVy") if secret in said]


def test_what_changed_in_settings_rights_and_features_is_told_without_secrets(logs: Path, tmp_path: Path) -> None:
    at = str(len(BEFORE))
    last = str(survey(stored_files([str(logs)])).last_zxid)
    shown = asked(str(logs), "--as-of", last, "--diff", at, "--out", str(tmp_path / "out"))

    assert shown.stdout.splitlines()[1:-1] == [
        "broker by default: listener.name.a.ssl.keystore.password changed, (hidden)",
        "client app: consumer.byte.rate unset → 7",
        "topic orders: cleanup.policy unset → compact",
        "topic orders: retention.ms 1000 → 2000",
        "user ann@x: SCRAM-SHA-256 (hidden), iterations=4096 → (hidden), iterations=8192",
        "user ann@x: producer_byte_rate 1 → 5",
        "delegation token t1 was created",
        "feature metadata.version 1 → 3",
        "access to Topic orders: now User:bob Allow Read from *",
        "access to Topic orders: no longer User:ann Allow Read from *",
    ]
