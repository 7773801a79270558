"""Settings as an operator would write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.settings import BadSettings, Settings, load

LEAST = {"zookeeper.connect": "zk:2181", "broker.id": "900"}


def settings(written: Mapping[str, str] | None = None) -> Settings:
    """The minimal settings, and these."""
    return load(None, [f"{key}={value}" for key, value in {**LEAST, **(written or {})}.items()], {})


def problems(written: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The errors in the minimal settings with these."""
    with pytest.raises(BadSettings) as caught:
        settings(written)
    return caught.value.problems


def problem(written: Mapping[str, str]) -> str:
    """The only error."""
    (only,) = problems(written)
    return only


def file(folder: Path, text: str) -> Path:
    """A properties file."""
    path = folder / "controller.properties"
    path.write_text(text, encoding="latin-1")
    return path
