"""Keys are looked up in controller/settings alone; the rest of the product receives the parts made there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.core.settings import TopicDefaults
from controller.settings.cluster import FIELDS, ClusterSettings
from controller.settings.preflight import PROTECTING
from controller.settings.table import SETTINGS
from controller.settings.values import Values
from tests.unit.settings.given import settings

ROOT = Path(__file__).parents[3]
OURS = ROOT / "controller" / "settings"
KEYS = {setting.key for setting in SETTINGS}
LOOK_UPS = {name for name in vars(Values) if not name.startswith("_")} - {"given", "overridden", "printable", "shown"}
# The first two read a broker's settings; the third collects files even where the configuration is invalid.
OF_OTHERS = ("controller/first_settings/", "controller/commands/init.py", "controller/commands/diagnose.py")
COMPOSITION = ("controller/commands/", "controller/process/")


def modules(*hints: str) -> Iterator[tuple[str, str]]:
    """The paths and texts of the product, but for what reads settings; only texts with one of these words."""
    for package in ("controller", "metrics", "zk_layout"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text("utf-8")
            if OURS not in path.parents and any(hint in text for hint in hints):
                yield str(path.relative_to(ROOT)), text


def look_ups(text: str) -> set[int]:
    """The lines that look up a setting: by its key, or by any key."""
    return {node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr) and is_look_up(node)}


def is_look_up(node: ast.expr) -> bool:
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key)), ctx=ast.Load()):
            return key in KEYS
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Constant(value=str(key)), *_]):
            return key in KEYS and name in {*LOOK_UPS, "get"}
        case ast.Attribute(value=ast.Attribute(attr="values"), attr=name):
            return name in LOOK_UPS
        case ast.Attribute(attr=name):
            return name == "by_key"
    return False


@pytest.mark.parametrize(
    "line",
    [
        'settings.values.number("http.port")',
        'settings.values["http.port"]',
        'found.get("http.port")',
        "settings.values.text(KEY)",
        "values.by_key[key]",
    ],
)
def test_a_look_up_is_seen(line: str) -> None:
    assert look_ups(f"import x\n{line}") == {2}


@pytest.mark.parametrize(
    "line",
    [
        "settings.http.port",
        "found.values()",
        "settings.values.shown()",
        "{'http.port': 1}",
        "found.sub('http.port', x)",
    ],
)
def test_nothing_else_is_a_look_up(line: str) -> None:
    assert not list(look_ups(line))


def test_no_key_is_looked_up_outside_of_the_settings() -> None:
    texts = modules(*(f'"{key}"' for key in KEYS), ".values.", "by_key")

    ours = [(path, text) for path, text in texts if not path.startswith(OF_OTHERS)]
    assert [f"{path}:{line}" for path, text in ours for line in look_ups(text)] == []


def test_only_those_who_put_a_process_together_have_the_whole_configuration() -> None:
    having = [
        path
        for path, text in modules("controller.settings import", "controller.settings.parts")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and "Settings" in {alias.name for alias in node.names}
    ]

    assert {path for path in having if not path.startswith(COMPOSITION)} == set()
    assert having


def test_each_key_that_brokers_have_as_well_is_in_the_part_that_may_change() -> None:
    assert FIELDS.keys() == PROTECTING.keys()
    assert tuple(FIELDS.values()) == ClusterSettings.__struct_fields__


def test_what_brokers_have_is_in_force_where_it_is_known() -> None:
    cluster = settings({"num.partitions": "5"}).term.cluster
    theirs = cluster.overridden({"auto.leader.rebalance.enable": False, "controller.quota.window.num": 20})

    assert (cluster.rebalance_every_s, cluster.quota_window_s) == (300.0, 11.0)
    assert (theirs.rebalance_every_s, theirs.quota_window_s) == (None, 20.0)
    assert theirs.topic_defaults == cluster.topic_defaults == TopicDefaults(5, 1)
