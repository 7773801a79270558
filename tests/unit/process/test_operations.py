"""What the operator reads is what the program says."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.core.messages.effects import NOTICE_KINDS
from controller.server.connection import DISCONNECTED_FOR
from metrics.measures import MEASURES, PREFIX, Kind
from zk_layout.catalog import FAMILIES

ROOT = Path(__file__).parents[3]
OPERATIONS, MOVES = ((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("operations.md", "moves.md"))
ALERTS = (ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8")
MODULES = [
    ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "controller").rglob("*.py"))
    if "demo" not in path.parts and "lab" not in path.parts and path.name != "outbox.py"
]


def notice_kinds() -> Iterator[str]:
    """The kind of every notice that the code can give; a name stands for a constant of its module."""
    for module in MODULES:
        constants = {
            target.id: statement.value.value
            for statement in module.body
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(module):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("Notice", "out.notice"):
                kind = call.args[0]
                yield str(kind.value if isinstance(kind, ast.Constant) else constants[ast.unparse(kind)])


KINDS = sorted(set(notice_kinds()))


def sample_names() -> set[str]:
    """The names under which Prometheus knows the measures."""
    suffixes = {Kind.GAUGE: [""], Kind.COUNTER: ["_total"], Kind.HISTOGRAM: ["_bucket", "_count", "_sum"]}
    return {PREFIX + measure.name + suffix for measure in MEASURES for suffix in suffixes[measure.kind]}


def test_there_are_notices() -> None:
    assert {"malformed znode", "refused legacy reassignment"} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_notice_is_explained(kind: str) -> None:
    assert f"| `{kind}` |" in OPERATIONS


def test_each_kind_of_notice_is_counted_from_zero() -> None:
    assert sorted(NOTICE_KINDS) == KINDS


def test_each_reason_for_disconnecting_a_client_is_counted_from_zero() -> None:
    given = {
        call.args[0].value
        for module in MODULES
        for call in ast.walk(module)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith((".client_disconnected", "._complain"))
        if isinstance(call.args[0], ast.Constant)
    }

    assert given
    assert given <= set(DISCONNECTED_FOR)


@pytest.mark.parametrize("reason", DISCONNECTED_FOR)
def test_each_reason_for_disconnecting_a_client_is_explained(reason: str) -> None:
    assert f"| `{reason}` |" in OPERATIONS


def test_alerts_and_operations_speak_of_measures_that_exist() -> None:
    spoken_of = set(re.findall(rf"{PREFIX}\w+", ALERTS + OPERATIONS + MOVES))

    assert spoken_of
    assert spoken_of <= sample_names()


def test_each_alert_has_what_it_means() -> None:
    alerts = re.split(r"\n\s+- alert: ", ALERTS)[1:]

    assert len(alerts) >= 5
    for alert in alerts:
        assert re.search(r"labels: \{severity: (critical|warning|info)\}", alert), alert
        assert "summary: " in alert
        assert "description: " in alert


@pytest.mark.parametrize(
    "message",
    [
        "broker.id is already in use",
        "cannot listen",
        "cannot reach ZooKeeper; trying again",
        "ZooKeeper refused this process",
        "no replica of this controller can lead",
    ],
)
def test_each_error_that_is_explained_is_one_that_is_logged(message: str) -> None:
    assert f"| `{message}` |" in OPERATIONS
    said = {
        node.value for module in MODULES for node in ast.walk(module) if isinstance(node, ast.Constant) and node.value
    }
    assert message in said


def test_what_stays_in_zookeeper_is_listed_completely() -> None:
    """Every znode of the catalogue is Kafka's own, goes with its session, or is in the table."""
    kafkas = re.compile(
        r"/(brokers|config|delegation_token|isr_change_notification|log_dir_event_notification)/|/kafka-acl"
        r"|/(controller|controller_epoch|feature|latest_producer_id_block|migration|admin/preferred_replica_election)\Z"
        r"|/admin/(delete_topics/|reassign_partitions\Z)"
    )
    fixed = {re.split(r"[(\[]", family.pattern)[0] for family in FAMILIES if family.pattern} - {""}
    ours = {path.rstrip("/") for path in fixed if not kafkas.match(path)}
    section = OPERATIONS.partition("### What stays in ZooKeeper")[2].partition("\n## ")[0]

    assert "/kafka_zk_controller/replica_deletions" in ours
    assert [path for path in sorted(ours) if f"`{path}`" not in section] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_shell_completes_commands_as_the_documentation_says() -> None:
    """The line for Bash is run; the others must at least give a script."""
    lines = re.findall(r"^.*_KAFKA_ZK_CONTROLLER_COMPLETE=(\w+)_source.*$", OPERATIONS, re.MULTILINE)
    (line,) = re.findall(r"^eval .*=bash_source .*$", OPERATIONS, re.MULTILINE)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = f"""{line}
        COMP_WORDS=(kafka-zk-controller swi); COMP_CWORD=1; _kafka_zk_controller_completion kafka-zk-controller
        echo "${{COMPREPLY[@]}}" """

    completed = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )

    assert lines == ["bash", "zsh", "fish"]
    assert completed.stdout.strip() == "switchover"
    for shell in lines:
        given = subprocess.run(
            ["kafka-zk-controller"],
            env=environment | {"_KAFKA_ZK_CONTROLLER_COMPLETE": f"{shell}_source"},
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert "kafka-zk-controller" in given.stdout


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", OPERATIONS):
        assert (ROOT / "docs" / target).exists(), target
