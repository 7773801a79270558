"""The documented columns are the columns there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from metrics.replay import session
from metrics.replay.cli import replay
from metrics.replay.jobs import ALL
from metrics.replay.reassignments import COLUMNS
from metrics.replay.schemas import TABLES, WRITTEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "replay.md").read_text()


@pytest.mark.parametrize("table", ALL)
def test_every_table_is_documented(table: str) -> None:
    assert f"`{table}`" in TEXT or f"### {table}" in TEXT


def test_every_column_of_a_move_is_documented_with_its_type() -> None:
    for name, _, kind, meaning in COLUMNS:
        assert f"| `{name}` | {kind} | {meaning} |" in TEXT


@pytest.mark.parametrize("table", ["events", "partitions", "damage"])
def test_every_column_read_from_the_logs_is_documented(table: str) -> None:
    missing = [name for name in WRITTEN[table].names if f"`{name}`" not in TEXT]

    assert not missing


def test_every_option_is_documented() -> None:
    options = [option for parameter in replay.params for option in parameter.opts if option.startswith("--")]

    assert [option for option in options if f"`{option}" not in TEXT] == []
    assert [table for table in TABLES if f"`{table}`" not in TEXT] == []


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.timeout(600, func_only=False)
def test_the_notebook_runs_from_its_first_cell_to_its_last(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = json.loads((DOCS / "replay.ipynb").read_text())
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    monkeypatch.setattr(session, "start", lambda: spark)
    monkeypatch.setattr(spark, "stop", lambda: stopped.append(True))
    stopped: list[bool] = []

    names: dict[str, object] = {}
    for source in code:
        exec(compile(source, "replay.ipynb", "exec"), names)
        if "DATA" in names and "OUT" in names:
            # Spark was not started in the notebook's own directory.
            names.update(DATA=str(DOCS / "../tests/fixtures/storage"), OUT=str(tmp_path))

    printed = capsys.readouterr().out
    assert re.search(r"\|finished\| +api\| +2000\|", printed)
    assert "kafka's own way" in printed
    assert printed.count("/brokers/topics/") >= 2
    assert stopped
