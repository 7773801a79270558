"""Which modules has a folder, and what is each for? The tables in READMEs, made from the modules' first sentences.

`make pages` renews them all; `tests/unit/test_module_tables.py` fails where one is out of date.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = tuple(ROOT / name for name in ("controller", "zk_layout", "metrics"))
BEGIN = "<!-- Made from the modules' docstrings by `make pages`. -->"
END = "<!-- Here the table ends. -->"


def folders() -> Iterator[Path]:
    """Every folder of the product that holds modules."""
    for package in PACKAGES:
        yield from sorted(path.parent for path in package.rglob("__init__.py"))


def modules(folder: Path) -> list[Path]:
    """The modules of one folder, its `__init__` left out."""
    return sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")


def summary(module: Path) -> str:
    """What a module says of itself first; the line may be broken."""
    paragraph, *_ = (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").split("\n\n")
    return " ".join(paragraph.split())


def table(folder: Path) -> str:
    """The table of a folder's README: its modules, and its subfolders with the modules of those without a README."""
    return "\n".join(["| module | question |", "| --- | --- |", *_rows(folder)])


def _rows(folder: Path, within: str = "") -> Iterator[str]:
    for module in modules(folder):
        yield f"| `{within}{module.stem}` | {summary(module)} |"
    for inside in sorted(path.parent for path in folder.glob("*/__init__.py")):
        has_readme = (inside / "README.md").exists()
        path = f"{within}{inside.name}"
        name = f"[{path}]({path}/README.md)" if has_readme else path
        yield f"| **{name}** | {summary(inside / '__init__.py')} |"
        if not has_readme:
            yield from _rows(inside, f"{path}/")


def renewed(readme: Path) -> str:
    """The text of a README with the table as it should be; without the two marks it has none."""
    text = readme.read_text("utf-8")
    if BEGIN not in text:
        return text
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{readme.relative_to(ROOT)} has no line {END!r}")
    return f"{before}{BEGIN}\n\n{table(readme.parent)}\n\n{END}{after}"


def readmes() -> list[Path]:
    """The READMEs of the product's folders."""
    return [readme for folder in folders() if (readme := folder / "README.md").exists()]


if __name__ == "__main__":
    for one in readmes():
        one.write_text(renewed(one), "utf-8")
