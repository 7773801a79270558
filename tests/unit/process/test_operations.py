"""What the operator reads is what the program says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.core.messages.effects import NOTICE_KINDS
from controller.server.connection import DISCONNECTED_FOR
from metrics.measures import MEASURES, PREFIX, Kind

ROOT = Path(__file__).parents[3]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
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
    spoken_of = set(re.findall(rf"{PREFIX}\w+", ALERTS + OPERATIONS))

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


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", OPERATIONS):
        assert (ROOT / "docs" / target).exists(), target
