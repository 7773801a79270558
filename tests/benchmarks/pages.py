"""What do README and docs/benchmarks.md say of speed? Tables and a plot, made from `recorded.json` alone.

`make pages` renews them; `tests/unit/test_benchmark_figures.py` fails where one is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.benchmarks.comparing import median, ratios, value, words
from tests.benchmarks.contenders import KAFKA, OURS
from tests.benchmarks.measured import Measured, Run, read
from tests.benchmarks.plots import ratios_plot
from tests.benchmarks.suite import CASES, MILLION, ROOT, Case

RECORDED = Path(__file__).with_name("recorded.json")
BEGIN = "<!-- Made from tests/benchmarks/recorded.json by `make pages`. -->"
END = "<!-- Here the figures end. -->"
README, PAGE, PLOT = ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks.svg"
_COUNTS = {1: "one run", 2: "two runs", 3: "three runs", 4: "four runs", 5: "five runs"}
# What the README tells of a case; the docs have the rest.
_TOLD: dict[str, tuple[str, ...]] = {
    "cold-100000": ("all_know_s", "peak_mib"),
    "killed-100000-1000ms": ("all_know_s", "decides_s"),
    "restart-100000": ("all_know_s", "vacant_s"),
    "broker-failed-100000": ("all_know_s", "last_update_metadata_s"),
    "moved-100x20": ("settled_s", "processor_s"),
    "moved-1x2000": ("settled_s", "processor_s", "topic_writes"),
    "removed-200": ("p50_ms", "p99_ms"),
    "cold-1000000": ("all_know_s", "peak_mib"),
}


def readme_table(measured: Mapping[str, Measured]) -> str:
    """The README's table."""
    lines = ["| | this controller | Kafka's | measured |", "| --- | --- | --- | --- |"]
    for case in _known(measured):
        if (told := _TOLD.get(case.name)) is None:
            continue
        known = measured[case.name]
        figures = "; ".join(words(figure) for figure in told[1:])
        cells = [_told(known, contender, told) for contender in (OURS, KAFKA)]
        lines.append(f"| {' | '.join([f'{case.title}; {figures}', *cells, _when(known)])} |")
    return "\n".join(lines)


def _told(known: Measured, contender: str, figures: Sequence[str]) -> str:
    first, *rest = figures
    values = {figure: known.values(contender, figure) for figure in figures}
    return "; ".join([median(first, values[first]), *(median(f, values[f], with_range=False) for f in rest)])


def docs_tables(measured: Mapping[str, Measured]) -> str:
    """All ratios, then every run of each case."""
    parts = [f"![This controller's time as a share of {KAFKA}'s]({PLOT.name})", ratios(_known(measured), measured)]
    for case in _known(measured):
        known = measured[case.name]
        parts += [f"**{case.title[0].upper()}{case.title[1:]}** ({_when(known)}; {known.machine})", _runs(case, known)]
    if missing := [case.title for case in (*CASES, *MILLION) if case.name not in measured]:
        parts.append("Not measured yet:\n\n" + "\n".join(f"- {title}" for title in missing))
    return "\n\n".join(parts)


def _known(measured: Mapping[str, Measured]) -> list[Case]:
    return [case for case in (*CASES, *MILLION) if case.name in measured]


def _when(known: Measured) -> str:
    days = " and ".join(sorted({run.at.partition(" ")[0] for run in known.runs}))
    most = max(len(known.of(contender)) for contender in (OURS, KAFKA))
    disturbed = ", on a busy machine" if any(run.is_disturbed for run in known.runs) else ""
    return f"{days}, {_COUNTS.get(most, f'{most} runs')}{disturbed}"


def _runs(case: Case, known: Measured) -> str:
    figures = _figures_of(case, known.runs)
    heads = ["controller", *map(words, figures), "others, of"]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    lines += [f"| {' | '.join(_cells(run, figures))} |" for run in known.runs]
    return "\n".join(lines)


def _figures_of(case: Case, runs: Sequence[Run]) -> list[str]:
    """The figures that tables show, in their order, as far as any run has them."""
    wanted = dict.fromkeys(
        (
            "decides_s",
            "first_leader_and_isr_s",
            "last_leader_and_isr_s",
            "answered_s",
            case.figure,
            *case.besides,
            "peak_mib",
        )
    )
    return [figure for figure in wanted if any(figure in run.figures for run in runs)]


def _cells(run: Run, figures: Sequence[str]) -> Iterator[str]:
    yield run.contender
    for figure in figures:
        yield value(figure, run.figures[figure]) if figure in run.figures else ""
    yield f"{run.others_s:.1f} s, {run.measured_s:.1f} s"


def renewed(text: str, table: str) -> str:
    """A page with the table that it should have between its two marks.

    Raises:
        ValueError: a mark is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def pages() -> dict[Path, str]:
    """Each page as it should be."""
    measured = read(RECORDED)
    return {
        README: renewed(README.read_text("utf-8"), readme_table(measured)),
        PAGE: renewed(PAGE.read_text("utf-8"), docs_tables(measured)),
        PLOT: ratios_plot(_known(measured), measured),
    }


def renew() -> None:
    """Write each page as it should be."""
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    renew()
