"""What README and docs/benchmarks.md say of speed is what was measured and recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.pages import pages
from tests.benchmarks.suite import ROOT

RENEW = "renew it with: make pages"


@pytest.mark.parametrize(("page", "text"), pages().items(), ids=[str(page.relative_to(ROOT)) for page in pages()])
def test_a_page_says_what_was_measured(page: Path, text: str) -> None:
    assert page.read_text("utf-8") == text, RENEW
