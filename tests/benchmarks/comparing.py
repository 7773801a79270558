"""How do the contenders compare? One table with ratios, and whether ours is as fast as it has to be."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from tests.benchmarks.contenders import KAFKA, KRAFT, OURS
from tests.benchmarks.measured import Measured, Run
from tests.benchmarks.suite import Case

_MEGABYTE = 1_000_000
_WORDS = {
    "all_know_s": "until all know",
    "answered_s": "answered",
    "claimed_s": "claimed",
    "decides_s": "until the next decides",
    "first_leader_and_isr_s": "first LeaderAndIsr",
    "last_leader_and_isr_s": "last LeaderAndIsr",
    "last_update_metadata_s": "last UpdateMetadata",
    "log_bytes": "transaction log",
    "p50_ms": "median",
    "p99_ms": "99 of 100",
    "peak_mib": "peak memory",
    "processor_s": "own processor time",
    "settled_s": "settled",
    "topic_writes": "writes of topic znodes",
    "transactions": "transactions",
    "vacant_s": "vacant",
}


def words(figure: str) -> str:
    """What a figure is called in tables."""
    return _WORDS[figure]


def value(figure: str, number: float) -> str:
    """A figure with its unit.

    >>> value("all_know_s", 3.166), value("vacant_s", 0.0123), value("peak_mib", 1024.6), value("topic_writes", 4000)
    ('3.2 s', '0.012 s', '1,025 MiB', '4,000')
    >>> value("log_bytes", 1_234_000), value("p50_ms", 12.34)
    ('1.2 MB', '12.3 ms')
    """
    if figure.endswith("_s"):
        return f"{number:.1f} s" if number >= 1 or not number else f"{number:.2g} s"
    if figure.endswith("_ms"):
        return f"{number:.1f} ms"
    if figure.endswith("_mib"):
        return f"{number:,.0f} MiB"
    if figure.endswith("_bytes"):
        return f"{number / _MEGABYTE:,.1f} MB"
    return f"{number:,.0f}"


def median(figure: str, values: Sequence[float], *, with_range: bool = True) -> str:
    """The median of several runs, with the smallest and the largest.

    >>> median("all_know_s", [3.74, 2.71, 3.17]), median("all_know_s", [3.74]), median("all_know_s", [])
    ('3.2 s (2.7-3.7)', '3.7 s', 'not measured')
    """
    if not values:
        return "not measured"
    middle = value(figure, statistics.median(values))
    if len(values) == 1 or not with_range:
        return middle
    ends = [value(figure, end).rpartition(" ")[0] or value(figure, end) for end in (min(values), max(values))]
    return f"{middle} ({ends[0]}-{ends[1]})"


def others(runs: Sequence[Run]) -> str:
    """How many processors everything else kept busy, in the worst of the runs."""
    return f"{max(run.others for run in runs):.2f}" if runs else ""


def ratios(cases: Sequence[Case], measured: Mapping[str, Measured]) -> str:
    """A Markdown table with a line for each figure of each case that was measured."""
    shown = [case for case in cases if case.name in measured and measured[case.name].runs]
    with_kraft = any(measured[case.name].of(KRAFT) for case in shown)
    heads = ["case", "figure", "this controller", "Kafka's", *([f"{KRAFT}'s"] if with_kraft else [])]
    heads += ["ratio", "runs", "others' processors"]
    lines = [f"| {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * (len(heads) - 2)}"]
    for case in shown:
        lines += _rows(case, measured[case.name], with_kraft=with_kraft)
    return "\n".join(lines)


def _rows(case: Case, known: Measured, *, with_kraft: bool) -> Iterator[str]:
    for nth, figure in enumerate((case.figure, *case.besides)):
        ratio = known.ratio(OURS, KAFKA, figure)
        cells = [
            "" if nth else case.title,
            words(figure),
            median(figure, known.values(OURS, figure)),
            median(figure, known.values(KAFKA, figure)),
            *([median(figure, values) if (values := known.values(KRAFT, figure)) else ""] if with_kraft else []),
            "" if ratio is None else f"{ratio:.3f}",
            "" if nth else f"{len(known.of(OURS))}, {len(known.of(KAFKA))}",
            "" if nth else others(known.runs),
        ]
        yield f"| {' | '.join(cells)} |"


def too_slow(case: Case, known: Measured | None) -> list[str]:
    """What ours needs more of than it may in this case, by its `at_most`; and what was not measured."""
    found: list[str] = []
    for figure, at_most in case.at_most.items():
        ratio = known.ratio(OURS, KAFKA, figure) if known else None
        if ratio is None:
            found.append(f"{case.name}: {words(figure)} was not measured of both controllers")
        elif ratio > at_most:
            found.append(f"{case.name}: {words(figure)} is {ratio:.2f} of Kafka's, more than {at_most:g}")
    return found
