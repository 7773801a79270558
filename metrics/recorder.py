"""What is the value of each measure now?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from metrics.measures import BY_NAME, MEASURES, PREFIX, Kind, Measure

CREATED_SERIES = "PROMETHEUS_DISABLE_CREATED_SERIES"
"""The client library's own switch for the series `_created`, which say when each counter began. They double the number
of series, so here they are off if it is not set."""
if CREATED_SERIES not in os.environ:
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library gives this function no types


class Recorder:
    """The live values of all measures, in a registry of their own. It may be used from any thread."""

    def __init__(self) -> None:
        """Every measure exists from the start, at zero where it has no labels."""
        self.registry = CollectorRegistry()
        self._live = {measure.name: self._register(measure) for measure in MEASURES}
        self._aliases = {
            measure.name: tuple(self._register_alias(alias, measure.help) for alias in measure.aliases)
            for measure in MEASURES
        }
        # By measure and labels, what takes a value: to look that up each time takes longer than to count.
        self._takers: dict[tuple[str, tuple[str, ...]], tuple[Callable[[float], None], ...]] = {}
        self._lock = Lock()
        ProcessCollector(registry=self.registry)

    def record(self, name: str, value: float = 1.0, labels: tuple[str, ...] = ()) -> None:
        """Set a gauge, raise a counter, or observe a value.

        Raises:
            KeyError: there is no such measure.
            ValueError: these are not as many labels as it has.
        """
        takers = self._takers.get((name, labels))
        if takers is None:
            with self._lock:
                takers = self._takers[name, labels] = tuple(self._takers_of(name, labels))
        for take in takers:
            take(value)

    def _takers_of(self, name: str, labels: tuple[str, ...]) -> Iterator[Callable[[float], None]]:
        live, is_level = self._live[name], BY_NAME[name].kind is Kind.GAUGE
        for shown in (live.labels(*labels) if labels else live, *self._aliases[name]):
            if isinstance(shown, Histogram):
                yield shown.observe
            elif isinstance(shown, Gauge) and is_level:
                yield shown.set
            else:
                yield shown.inc

    def expect(self, name: str, values: Iterable[tuple[str, ...]]) -> None:
        """Show a measure with these values of its labels from now on, at zero until something is recorded.

        Without a zero before it, the first event is no increase for Prometheus.

        Raises:
            KeyError, ValueError: as for `record`.
        """
        for labels in values:
            self._live[name].labels(*labels)

    def forget(self, name: str) -> None:
        """Show a measure with labels for none of them any more."""
        with self._lock:
            for known in [known for known in self._takers if known[0] == name]:
                del self._takers[known]
            self._live[name].clear()

    def value(self, name: str, labels: tuple[str, ...] = ()) -> float:
        """A gauge's or counter's value; for a histogram the number of observations."""
        suffix = {Kind.GAUGE: "", Kind.COUNTER: "_total", Kind.HISTOGRAM: "_count"}[BY_NAME[name].kind]
        named = dict(zip(BY_NAME[name].labels, labels, strict=True))
        return self.registry.get_sample_value(PREFIX + name + suffix, named) or 0.0

    def _register_alias(self, alias: str, meaning: str) -> Gauge | Counter:
        """A counter if its name says so: a gauge keeps any name as it is."""
        name = alias.removesuffix("_total")
        return (Gauge if name == alias else Counter)(name, meaning, registry=self.registry)

    def _register(self, measure: Measure) -> Gauge | Counter | Histogram:
        name, labels = PREFIX + measure.name, measure.labels
        match measure.kind:
            case Kind.GAUGE:
                return Gauge(name, measure.help, labels, registry=self.registry)
            case Kind.COUNTER:
                return Counter(name, measure.help, labels, registry=self.registry)
            case Kind.HISTOGRAM:
                return Histogram(name, measure.help, labels, buckets=measure.buckets, registry=self.registry)
