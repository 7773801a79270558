"""The pages about settings and metrics are made from the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.settings import documentation
from controller.settings.table import SETTINGS
from metrics import measures

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("page", "made"), [("settings.md", documentation.as_markdown()), ("metrics.md", measures.as_markdown())]
)
def test_the_page_is_what_the_table_makes_today(page: str, made: str) -> None:
    command = f"kafka-zk-controller {page.removesuffix('.md')} --output markdown > docs/{page}"

    assert (DOCS / page).read_text(encoding="utf-8") == made, f"renew it with: {command}"


def test_every_setting_is_explained_in_whole_sentences() -> None:
    assert [setting.key for setting in SETTINGS if not setting.doc.endswith(".")] == []
    assert len({setting.key for setting in SETTINGS}) == len(SETTINGS)
