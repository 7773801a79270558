"""How does a table of ratios look? One dot a case: the time of this controller as a share of Kafka's, in SVG."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from tests.benchmarks.comparing import median
from tests.benchmarks.contenders import KAFKA, OURS
from tests.benchmarks.measured import Measured
from tests.benchmarks.suite import Case

_WIDTH, _LEFT, _RIGHT = 900, 20, 880
_TOP, _ROW = 62, 46
_LEAST = 0.001
_HEADING = f"This controller's time as a share of {KAFKA}'s in the same run (logarithmic: further left is faster)"
_STYLE = """\
text { font: 13px sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.ours { fill: #0969da }
.range { stroke: #1f2328; stroke-width: 2 }
.line { stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .small { fill: #9198a1 } .ours { fill: #4493f8 }
  .range { stroke: #f0f6fc } .line { stroke: #3d444d }
}"""


def ratios_plot(cases: Sequence[Case], measured: Mapping[str, Measured]) -> str:
    """The plot of all cases of which both were measured, on a logarithmic scale; Kafka's median is at the right edge.

    Shape:
        A line spans from our fastest run to our slowest, as a share of Kafka's median.
    """
    both = [(case, measured[case.name]) for case in cases if _ratio(case, measured) is not None]
    height = _TOP + _ROW * len(both) + 10
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{_HEADING}</title>",
            f"<style>\n{_STYLE}\n</style>",
            f'<text x="{_LEFT}" y="20">{_HEADING}</text>',
            *_scale(height),
            *(line for nth, (case, known) in enumerate(both) for line in _dot(case, known, _TOP + _ROW * nth)),
            "</svg>\n",
        ]
    )


def _ratio(case: Case, measured: Mapping[str, Measured]) -> float | None:
    known = measured.get(case.name)
    return known.ratio(OURS, KAFKA, case.figure) if known else None


def _x(share: float) -> float:
    """Where a share of Kafka's time is; what lies outside of the scale is at its ends."""
    within = min(1.0, max(_LEAST, share))
    return round(_LEFT + (_RIGHT - _LEFT) * (1 - math.log(within) / math.log(_LEAST)), 1)


def _scale(height: int) -> Iterator[str]:
    for share in (0.001, 0.01, 0.1, 1):
        x = _x(share)
        yield f'<line class="line" x1="{x}" x2="{x}" y1="44" y2="{height}"/>'
        anchor = "start" if share == _LEAST else "end" if share == 1 else "middle"
        yield f'<text class="small" x="{x}" y="40" text-anchor="{anchor}">{share:g}</text>'


def _dot(case: Case, known: Measured, top: int) -> Iterator[str]:
    ratio = known.ratio(OURS, KAFKA, case.figure)
    assert ratio is not None
    ours, theirs = known.values(OURS, case.figure), known.values(KAFKA, case.figure)
    middle = median(case.figure, ours, with_range=False), median(case.figure, theirs, with_range=False)
    shares = [value / statistics.median(theirs) for value in (min(ours), max(ours))]
    yield f'<text x="{_LEFT + 4}" y="{top + 12}">{escape(case.title)}</text>'
    yield f'<line class="line" x1="{_LEFT}" x2="{_RIGHT}" y1="{top + 24}" y2="{top + 24}"/>'
    if len(ours) > 1:
        yield f'<line class="range" x1="{_x(shares[0])}" x2="{_x(shares[1])}" y1="{top + 24}" y2="{top + 24}"/>'
    yield f'<circle class="ours" cx="{_x(ratio)}" cy="{top + 24}" r="5"/>'
    busy = ", on a busy machine" if any(run.is_disturbed for run in known.runs) else ""
    said = f"{ratio:.3f}: {middle[0]}, Kafka's {middle[1]}{busy}"
    yield f'<text class="small" x="{_RIGHT - 4}" y="{top + 12}" text-anchor="end">{escape(said)}</text>'
