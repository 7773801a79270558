"""How are expected outputs renewed? `pytest tests/scenarios --rewrite`, then read every changed line."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rewrite`."""
    parser.addoption("--rewrite", action="store_true", help="write what happened into the scenarios")
