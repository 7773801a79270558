"""The documented columns are the existing ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from metrics.replay.commands.cli import ask, browse, replay
from metrics.replay.commands.jobs import ALL, Job, run
from metrics.replay.engine.bulk import written
from metrics.replay.engine.engines import Local
from metrics.replay.events.schemas import TABLES
from metrics.replay.partitions.reassignments import COLUMNS
from metrics.replay.spark import session
from tests.replay.notebook import NOTEBOOK, shown_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "replay.md").read_text()


SPARK = {
    "int64": "bigint", "int32": "int", "string": "string", "bool": "boolean", "double": "double",
    "timestamp[us, tz=UTC]": "timestamp", "list<item: int32>": "array<int>", "list<element: int32>": "array<int>",
}  # fmt: skip
UNITS = {"_ms": "ms", "_bytes": "bytes", "_at": "UTC", "zxid": "zxid", "bytes_a_day": "bytes a day"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables of a real history."""
    made = str(tmp_path_factory.mktemp("tables") / "out")
    run(Local(), Job((str(DOCS / "../tests/fixtures/native/kafka-2.4.1"),), made))
    return made


def documented(table: str) -> dict[str, tuple[str, str, str]]:
    """Each column's type, unit and meaning."""
    section = re.search(rf"^### {table}: .*?(?=^##)", TEXT, re.DOTALL | re.MULTILINE)
    assert section is not None
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.+) \|$", section[0], re.MULTILINE)
    return {name: (kind, unit, meaning) for name, kind, unit, meaning in rows}


@pytest.mark.parametrize("table", ALL)
def test_every_column_is_documented_with_its_type_and_its_unit(table: str, out: str) -> None:
    found = documented(table)
    columns = {f.name: SPARK.get(str(f.type), str(f.type)) for f in written(out, table).schema}

    assert list(found) == list(columns)
    for name, (kind, unit, _) in found.items():
        assert kind == columns[name] or name == "isr_milestones"
        assert all(unit == said for end, said in UNITS.items() if name.endswith(end)), name
        assert unit or kind in ("string", "boolean"), name


def test_every_column_of_a_move_is_documented_as_in_the_code() -> None:
    assert {name: found[::2] for name, found in documented("reassignments").items()} == {
        name: (kind, meaning) for name, _, kind, meaning in COLUMNS
    }


def test_every_option_is_documented() -> None:
    options = [
        option
        for command in (replay, ask, browse)
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    ]

    assert [option for option in options if f"`{option}" not in TEXT] == []
    assert [table for table in TABLES if f"`{table}`" not in TEXT] == []


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.timeout(600, func_only=False)
def test_the_notebook_runs_from_its_first_cell_to_its_last(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "start", lambda: spark)
    monkeypatch.setattr(spark, "stop", lambda: stopped.append(True))
    stopped: list[bool] = []

    # Spark was not started in the notebook's own directory.
    cells = list(shown_by({"DATA": str(DOCS / "../tests/fixtures/storage"), "OUT": str(tmp_path)}))

    printed = "".join(shown for _, shown in cells)
    assert re.search(r"\|finished\| +api\| +2000\|", printed)
    assert "kafka's own way" in printed
    assert printed.count("/brokers/topics/") >= 2
    assert stopped


def test_the_notebook_keeps_what_it_has_shown() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    kept = "".join(line for cell in cells for output in cell["outputs"] for line in output["text"])

    assert "|finished|   api| 2000|" in kept
    assert all(cell["outputs"] for cell in cells if ".show(" in "".join(cell["source"]))
