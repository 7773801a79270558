"""Each row of the table of APIs is complete, agrees with Kafka's schemas, and is the only place that lists its API."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import get_args

import pytest

from controller.core.clients.authorization import NEEDED
from controller.core.messages.replies import ClusterDescription, ReassignmentsListed, Reply
from controller.core.messages.requests import Request
from controller.wire import replies, requests, rights_needed
from controller.wire.apis import (
    ANSWERED,
    BY_BROKERS_ON_STANDBY,
    COMMANDS,
    RELAYABLE,
    SERVED,
    Answerer,
    ApiKey,
    Pool,
    Treatment,
    VersionRange,
    api_name,
    is_flexible,
    requests_of,
)
from controller.wire.commands import FIRST_WITH_KIND
from controller.wire.versions import OLDEST

ROOT = Path(__file__).parents[3]
EACH = pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.api_name)
OF_BROKERS = (Answerer.ANY_BROKER, Answerer.ANY_BROKER_OR_THIS_NODE, Answerer.BROKER_THAT_SEES_WHO_ASKS)
OF_CONTROLLERS = (
    Answerer.CONTROLLER,
    Answerer.CONTROLLER_BY_WAY_OF_OTHERS,
    Answerer.CONTROLLER_OR_ANY_BROKER,
)
ANSWERERS = {
    Treatment.SERVED: {*OF_CONTROLLERS, Answerer.THIS_NODE},
    Treatment.RELAYED: {*OF_BROKERS},
    Treatment.ANSWERED: {Answerer.THIS_NODE},
    Treatment.ACKNOWLEDGED: {Answerer.THIS_NODE},
    Treatment.CLOSED: {Answerer.LEADER_OR_COORDINATOR, Answerer.NO_NODE},
}
CODECS = {
    "controller/lab/simulated_broker.py": {"_RANGES", "_UNREAD"},
    "controller/server/entrance.py": {"_LOGIN"},
    "controller/wire/commands.py": {"FIRST_WITH_KIND"},
    "controller/wire/replies.py": {"_KEYS"},
    "controller/wire/requests.py": {"_DECODERS"},
    "controller/wire/rights_needed.py": {"_READERS"},
    "controller/wire/versions.py": {""},
}
"""What names several APIs because each has code there: its bytes, its rights, the login."""
SPEAKING = ("controller/wire/", "controller/server/", "controller/brokers/", "controller/connections/")
BY_VERSION = ("controller/wire/broker_side.py", "_QUIET_TAILS")


def of_kio(key: ApiKey) -> dict[int, bool]:
    """The versions that kio knows, and whether they are flexible."""
    package = import_module(f"kio.schema.{key.name.lower()}")
    found = {}
    for module in iter_modules(package.__path__):
        if module.name.startswith("v"):
            schema = import_module(f"{package.__name__}.{module.name}.request")
            request = getattr(schema, f"{key.api_name}Request")
            assert request.__api_key__ == key
            found[int(module.name[1:])] = request.__flexible__
    return found


def test_every_number_up_to_the_last_has_one_row_and_a_name_of_its_own() -> None:
    assert [key.value for key in ApiKey] == list(range(76))
    assert len({key.api_name for key in ApiKey}) == 76
    assert api_name(75) == "DescribeTopicPartitions (75)"
    assert api_name(76) == "api key 76"


@EACH
def test_a_row_says_all_and_nothing_that_contradicts_the_rest_of_it(key: ApiKey) -> None:
    row = key.row

    assert row.answerer in ANSWERERS[row.treatment]
    assert row.why
    assert "|" not in f"{row.why}{row.right}"
    assert (row.right == "") == (row.treatment is Treatment.CLOSED)
    assert (row.versions is None) == (
        row.treatment is Treatment.CLOSED or row.answerer is Answerer.BROKER_THAT_SEES_WHO_ASKS
    )
    assert (row.request is not None) == (row.answerer in OF_CONTROLLERS)
    assert (row.pool is Pool.RELAYED) == (row.treatment is Treatment.RELAYED)
    assert (row.pool is Pool.BROKERS_OWN) == (
        row.treatment is Treatment.ACKNOWLEDGED or row.answerer is Answerer.CONTROLLER
    )
    assert row.most_entries > 0
    assert row.throttled_since is None or (row.versions is not None and row.throttled_since in row.versions)


@EACH
def test_a_row_agrees_with_kafkas_schemas(key: ApiKey) -> None:
    row, known = key.row, of_kio(key)

    assert row.first_flexible == next((version for version in sorted(known) if known[version]), None)
    assert [is_flexible(key, version) for version in known] == list(known.values())
    for versions in (row.versions, row.believed):
        assert versions is None or (versions.lowest == 0 and versions.highest in known)


def test_what_the_core_is_asked_is_decoded_and_encoded_and_is_all_that_it_can_be_asked() -> None:
    encoded = {key for keys in replies._KEYS.values() for key in keys}

    assert requests._DECODERS.keys() == SERVED.keys()
    assert encoded == SERVED.keys() - {ApiKey.API_VERSIONS}
    assert replies._KEYS.keys() == set(get_args(Reply))
    assert replies._ENTITIES.keys() == replies._KEYS.keys() - {ClusterDescription, ReassignmentsListed}
    assert set(requests_of(SERVED)) == set(get_args(Request))
    assert FIRST_WITH_KIND.keys() == OLDEST.commands.keys() == COMMANDS.keys()


@EACH
def test_the_core_demands_the_right_on_the_cluster_that_the_row_names(key: ApiKey) -> None:
    if key.row.request is not None:
        assert NEEDED.get(key.row.request) == key.row.on_cluster


def test_what_is_passed_on_has_rights_that_are_constant_or_are_read() -> None:
    read = {
        key for key in RELAYABLE | BY_BROKERS_ON_STANDBY if (row := ApiKey(key).row).versions and row.on_cluster is None
    }

    assert rights_needed._READERS.keys() == read


def test_no_api_is_treated_in_two_ways() -> None:
    assert not SERVED.keys() & ANSWERED.keys() | SERVED.keys() & COMMANDS.keys() | ANSWERED.keys() & COMMANDS.keys()
    assert not RELAYABLE & SERVED.keys()


def test_nothing_else_in_the_product_lists_apis() -> None:
    found: dict[str, set[str]] = {}
    for path, name, entries in literals():
        if sum(isinstance(entry, ast.Attribute) and is_name(entry.value, "ApiKey") for entry in entries) > 1:
            found.setdefault(path, set()).add(name)
        names = {entry.value for entry in entries if isinstance(entry, ast.Constant)}
        assert len(names & {key.api_name for key in ApiKey}) < 2, f"{path}: {name} lists APIs by name"

    assert found == CODECS


def test_nothing_else_in_the_product_knows_apis_by_number() -> None:
    for path, name, entries in literals():
        if path.startswith(SPEAKING) and (path, name) != BY_VERSION:
            assert not all(isinstance(entry, ast.Constant) and is_number(entry) for entry in entries), (
                f"{path}: {name} has bare numbers; name APIs by ApiKey"
            )
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and is_key(node.left):
                assert not any(map(is_number, node.comparators)), f"{path}: {ast.unparse(node)}; use ApiKey"


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of the product, but the table, that has to do with APIs."""
    found = []
    for folder in ("controller", "metrics", "zk_layout"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
            is_about_apis = any(
                word in text for word in ("ApiKey", "api_key", *(f'"{key.api_name}"' for key in ApiKey))
            )
            if path != "controller/wire/apis.py" and (is_about_apis or path.startswith(SPEAKING)):
                found.append((path, ast.parse(text)))
    return tuple(found)


@cache
def literals() -> tuple[tuple[str, str, list[ast.expr]], ...]:
    """Every set, list and mapping of two or more that is written out: where, under which name, and its entries; of
    a mapping its keys, or values that name APIs."""
    found = []
    for path, tree in modules():
        names = dict(named(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                entries = [entry for entry in node.keys if entry is not None]
            elif isinstance(node, ast.Set) or (isinstance(node, ast.List | ast.Tuple) and names_apis(node.elts)):
                entries = node.elts
            else:
                continue
            if len(entries) > 1:
                found.append((path, names.get(node, ""), entries))
    return tuple(found)


def names_apis(entries: list[ast.expr]) -> bool:
    """Whether one is a member of ApiKey."""
    return any(isinstance(entry, ast.Attribute) and is_name(entry.value, "ApiKey") for entry in entries)


def is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def is_key(node: ast.expr) -> bool:
    """Whether this may be the number of an API."""
    return (isinstance(node, ast.Attribute) and node.attr == "api_key") or is_name(node, "api_key")


def is_number(node: ast.expr) -> bool:
    """A number, or several that are written out."""
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        return all(map(is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) is int


def named(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Each expression that belongs to a name of the module, with that name."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            for node in ast.walk(statement.value):
                yield node, ast.unparse(target)


def test_a_range_of_one_version_is_shown_as_that_version() -> None:
    assert [str(VersionRange(0, 12)), str(VersionRange(1, 1))] == ["0 to 12", "1"]
