"""What did the demo prove, and how long did each step take?"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct
from rich.table import Table


class Check(Struct, frozen=True):
    """One thing that must be true at the end, and what was found."""

    claim: str
    passed: bool
    found: str = ""


class Report(Struct, kw_only=True):
    """The results; what was not reached is absent.

    Units:
        All times are in seconds. `takeover_s`: from the start of the replicas' processes to the first command that a
        broker has acknowledged. `vacancy_s`: from SIGKILL to the next claim of `/controller` by ours; `failover_s`:
        until the successor's first acknowledged command. `longest_silence_s`: without any new record for the consumer.
    """

    kafka_version: str
    brokers: str
    partitions: int
    started_s: float | None = None
    takeover_s: float | None = None
    moved_bytes: int | None = None
    move_s: float | None = None
    done_at_kill: int | None = None
    vacancy_s: float | None = None
    failover_s: float | None = None
    native_terms_between: int | None = None
    acknowledged: int | None = None
    found: int | None = None
    longest_silence_s: float | None = None
    controllers: dict[str, dict[str, float]] = {}
    checks: list[Check] = []
    total_s: float | None = None

    @property
    def passed(self) -> bool:
        """Whether every check passed, and there were some."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def failures(self) -> list[Check]:
        """The checks that did not pass."""
        return [check for check in self.checks if not check.passed]

    def as_json(self) -> str:
        """For programs."""
        facts = {key: round(value, 3) if isinstance(value, float) else value for key, value in self._fields()}
        body = {**facts, "passed": self.passed}
        return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()

    def _fields(self) -> Iterable[tuple[str, object]]:
        fields: dict[str, object] = msgspec.to_builtins(self)
        return fields.items()

    def tables(self) -> list[Table]:
        """For people."""
        return [_facts(self), _controllers(self), _checks(self)]


def _facts(report: Report) -> Table:
    table = Table(title="The demo in figures", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    rows: list[tuple[str, object]] = [
        ("cluster", report.brokers),
        ("ZooKeeper and brokers up", _seconds(report.started_s)),
        ("take-over, from process start to the first command", _seconds(report.takeover_s)),
        ("moved", _moved(report)),
        ("the move, from the tool's request to the last partition", _seconds(report.move_s)),
        ("killed with SIGKILL when", _killed(report)),
        ("time without a leader of ours (ZooKeeper's session time-out and a little more)", _seconds(report.vacancy_s)),
        ("fail-over, from SIGKILL to the successor's first command", _seconds(report.failover_s)),
        ("a native controller slipped in meanwhile", _times(report.native_terms_between)),
        ("records acknowledged", report.acknowledged),
        ("of these found at the end", report.found),
        ("consumer's longest silence", _seconds(report.longest_silence_s)),
        ("whole demo", _seconds(report.total_s)),
    ]
    for name, value in rows:
        if value is not None:
            table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    return table


def _moved(report: Report) -> str | None:
    if report.move_s is None:
        return None
    size = f", {report.moved_bytes / 1e6:.0f} MB" if report.moved_bytes else ""
    return f"{report.partitions} partitions{size}"


def _killed(report: Report) -> str | None:
    return None if report.done_at_kill is None else f"{report.done_at_kill} of {report.partitions} partitions were done"


def _times(count: int | None) -> str | None:
    return None if not count else f"{count}×, replaced at once"


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f} s"


def _controllers(report: Report) -> Table:
    table = Table("what the controllers counted", *(name for name in report.controllers), title="Their own /metrics")
    names: dict[str, None] = {}
    for figures in report.controllers.values():
        names.update(dict.fromkeys(figures))
    for name in names:
        table.add_row(name, *(f"{figures.get(name, 0):,g}" for figures in report.controllers.values()))
    return table


def _checks(report: Report) -> Table:
    table = Table("", "check", "found", title="Checks")
    for check in report.checks:
        mark = "[green]✓[/green]" if check.passed else "[bold red]✗[/bold red]"
        table.add_row(mark, check.claim, check.found)
    return table
