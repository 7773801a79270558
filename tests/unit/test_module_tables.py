"""The tables of modules in the folders' READMEs are complete, and say what the modules say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.module_tables import BEGIN, ROOT, folders, readmes, renewed, summary

RENEW = "renew it with: make pages"


@pytest.mark.parametrize("readme", readmes(), ids=lambda readme: str(readme.parent.relative_to(ROOT)))
def test_a_table_is_up_to_date(readme: Path) -> None:
    assert readme.read_text("utf-8") == renewed(readme), RENEW


def test_every_folder_is_in_the_table_of_a_readme() -> None:
    """Its own, or that of the nearest folder above that has one."""

    def is_covered(folder: Path) -> bool:
        readme = folder / "README.md"
        return BEGIN in readme.read_text("utf-8") if readme.exists() else is_covered(folder.parent)

    assert [str(folder.relative_to(ROOT)) for folder in folders() if not is_covered(folder)] == []


def test_every_summary_is_a_whole_sentence() -> None:
    paths = [path for folder in folders() for path in sorted(folder.glob("*.py"))]

    assert [str(path.relative_to(ROOT)) for path in paths if not summary(path).endswith((".", "?"))] == []
