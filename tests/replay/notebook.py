"""How does the example notebook run as a whole? `python -m tests.replay.notebook` keeps its output."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "docs" / "replay.ipynb"


def shown_by(names: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each cell of code, and its output; `names` replace those that the first cells define."""
    known: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), known)
            if names.keys() <= known.keys():
                known.update(names)
            yield cell, printed.getvalue()


def main() -> None:
    """Run it in its own directory, and write its outputs into it."""
    os.chdir(NOTEBOOK.parent)
    content = json.loads(NOTEBOOK.read_text())
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    with TemporaryDirectory() as out:
        for number, (cell, (_, printed)) in enumerate(zip(cells, shown_by({"OUT": out}), strict=True), 1):
            text = printed.splitlines(keepends=True)
            cell["execution_count"] = number
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    NOTEBOOK.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
