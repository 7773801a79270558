"""docs/decisions has each decision once, with a state that holds, and the index lists them all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
INDEX = DECISIONS / "README.md"
WHOLE = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\n"
    r"State: (?P<state>.+)\n\n"
    r"\*\*Context\.\*\* [^\0]+\n\n\*\*Choice\.\*\* [^\0]+\n\n\*\*Price\.\*\* [^\0]+\n"
)
STATE = re.compile(r"in force|(partly )?superseded by \d+( and \d+)*")
ROW = re.compile(r"\| (?P<number>\d+) \| \[(?P<title>.+)\]\((?P<file>.+)\) \| (?P<state>.+) \|")
LINK = re.compile(r"\[(\d+)\]\(((\d{4})-[a-z0-9-]+\.md)\)")
FOLDERS = ("controller", "deploy", "docs", "metrics", "tests", "zk_layout")
TEXTS = {".ipynb", ".md", ".properties", ".py", ".service", ".toml", ".yml"}


class Decision(Struct, frozen=True):
    """One row of the index, or the head of one file."""

    number: int
    title: str
    file: str
    state: str


def files() -> list[Path]:
    return sorted(path for path in DECISIONS.iterdir() if path != INDEX)


def decision(path: Path) -> Decision:
    found = WHOLE.fullmatch(path.read_text(encoding="utf-8"))
    assert found, f"{path.name} has no number, title, state, context, choice and price, in this order"
    return Decision(int(found["number"]), found["title"], path.name, LINK.sub(r"\1", found["state"]))


def texts() -> Iterator[tuple[Path, str]]:
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    for path in (*ROOT.glob("*"), *inside):
        if path.suffix in TEXTS and path.is_file():
            yield path, path.read_text(encoding="utf-8")


def test_numbers_are_given_once_and_in_order() -> None:
    decisions = [decision(path) for path in files()]

    assert [one.number for one in decisions] == list(range(1, len(decisions) + 1))
    assert [one.file for one in decisions if not one.file.startswith(f"{one.number:04}-")] == []


def test_a_superseded_decision_names_those_that_hold_instead() -> None:
    numbers = {decision(path).number for path in files()}

    for one in map(decision, files()):
        others = {int(number) for number in re.findall(r"\d+", one.state)}
        assert STATE.fullmatch(one.state), f"{one.file}: {one.state!r} is no state"
        assert others <= numbers - {one.number}, f"{one.file} is {one.state}"
        is_explained = "\n\n**Since then.** " in (DECISIONS / one.file).read_text(encoding="utf-8")
        assert is_explained or not one.state.startswith("partly"), f"{one.file} does not say what no longer holds"


def test_the_index_lists_each_decision_once() -> None:
    rows = [Decision(int(n), *rest) for n, *rest in ROW.findall(INDEX.read_text(encoding="utf-8"))]

    assert sorted(rows, key=lambda row: row.number) == [decision(path) for path in files()]


def test_every_reference_leads_to_a_decision() -> None:
    names = {path.name for path in files()}
    numbers = {decision(path).number for path in files()}

    for path, text in texts():
        for number in re.findall(r"\bdecisions? (\d+)\b", text, re.IGNORECASE):
            assert int(number) in numbers, f"{path.relative_to(ROOT)}: there is no decision {number}"
        for file in re.findall(r"decisions/(\d{4}[^\s)]*)", text):
            assert file in names, f"{path.relative_to(ROOT)}: there is no docs/decisions/{file}"
        if path.parent == DECISIONS:
            links = LINK.findall(text)
            wrong = [file for shown, file, number in links if file not in names or int(shown) != int(number)]
            assert wrong == [], f"{path.name} links to {wrong}"
