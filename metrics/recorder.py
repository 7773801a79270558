"""What is the value of each measure now?"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from metrics.measures import BY_NAME, MEASURES, PREFIX, Kind, Measure


class Recorder:
    """The live values of all measures, in a registry of their own. It may be used from any thread."""

    def __init__(self) -> None:
        """Every measure exists from the start, at zero where it has no labels."""
        self.registry = CollectorRegistry()
        self._live = {measure.name: self._register(measure) for measure in MEASURES}
        self._aliases = {
            measure.name: Gauge(measure.alias, measure.help, registry=self.registry)
            for measure in MEASURES
            if measure.alias
        }

    def record(self, name: str, value: float = 1.0, labels: tuple[str, ...] = ()) -> None:
        """Set a gauge, raise a counter, or observe a value.

        Raises:
            KeyError: there is no such measure.
            ValueError: these are not as many labels as it has.
        """
        live = self._live[name]
        child = live.labels(*labels) if labels else live
        if isinstance(child, Gauge):
            child.set(value)
            if name in self._aliases:
                self._aliases[name].set(value)
        elif isinstance(child, Counter):
            child.inc(value)
        else:
            child.observe(value)

    def forget(self, name: str) -> None:
        """Show a measure with labels for none of them any more."""
        self._live[name].clear()

    def value(self, name: str, labels: tuple[str, ...] = ()) -> float:
        """A gauge's or counter's value; for a histogram the number of observations."""
        suffix = {Kind.GAUGE: "", Kind.COUNTER: "_total", Kind.HISTOGRAM: "_count"}[BY_NAME[name].kind]
        named = dict(zip(BY_NAME[name].labels, labels, strict=True))
        return self.registry.get_sample_value(PREFIX + name + suffix, named) or 0.0

    def _register(self, measure: Measure) -> Gauge | Counter | Histogram:
        name, labels = PREFIX + measure.name, measure.labels
        match measure.kind:
            case Kind.GAUGE:
                return Gauge(name, measure.help, labels, registry=self.registry)
            case Kind.COUNTER:
                return Counter(name, measure.help, labels, registry=self.registry)
            case Kind.HISTOGRAM:
                return Histogram(name, measure.help, labels, buckets=measure.buckets, registry=self.registry)
