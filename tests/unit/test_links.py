"""Links lead somewhere, and paths that pages name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")
PATH = re.compile(r"`((?:controller|deploy|docs|metrics|tests|zk_layout)/[^\s`*…{:]*)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
WITHOUT_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# What is written as the past had it, or by tools.
LEFT_OUT = ("CHANGELOG.md", "docs/decisions/", "docs/kafka-tests.md", "tests/fixtures/")


def pages() -> Iterator[tuple[Path, str]]:
    folders = ("controller", "deploy", "docs", "metrics", "tests", "zk_layout")
    for path in (*ROOT.glob("*.md"), *(p for folder in folders for p in sorted((ROOT / folder).rglob("*.md")))):
        if not str(path.relative_to(ROOT)).startswith(LEFT_OUT):
            yield path, WITHOUT_CODE.sub("", path.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    headings = HEADING.findall(WITHOUT_CODE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    at = page.parent / target if target else page
    return at.exists() and (not anchor or anchor in anchors(at))


def test_every_link_leads_somewhere() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page, text in pages()
        for target, anchor in LINK.findall(text)
        if not leads_somewhere(page, target, anchor)
    ]

    assert wrong == []


def test_every_path_exists() -> None:
    """From the root, or from the page's own folder; a module may stand without its suffix."""

    def exists(path: Path) -> bool:
        return path.exists() or path.with_name(f"{path.name}.py").exists()

    wrong = [
        f"{page.relative_to(ROOT)}: {named}"
        for page, text in pages()
        for named in PATH.findall(text)
        if not exists(ROOT / named) and not exists(page.parent / named)
    ]

    assert wrong == []
