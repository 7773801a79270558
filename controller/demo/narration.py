"""How does the demo show its progress: live bars on a terminal, plain lines elsewhere?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from controller.core.stage import Stage
from controller.demo.move import Progress
from controller.demo.znodes import PartitionSeen

_SHOWN_ROWS = 30
_LINE_EVERY_S = 2.0
_COLOURS = {
    Stage.SETTLED: "green",
    Stage.CATCHING_UP: "yellow",
    Stage.HANDING_OVER: "cyan",
    Stage.LETTING_GO: "magenta",
}


class Narrator:
    """Prints each chapter in one line, with the seconds since the start in front."""

    def __init__(self, console: Console) -> None:
        """Starts the clock."""
        self.console = console
        self._started = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def chapter(self, text: str) -> None:
        """Start a chapter."""
        self._line(text, "bold")

    def say(self, text: str) -> None:
        """Print an event of the chapter."""
        self._line(f"  {text}", "default")

    def alarm(self, text: str) -> None:
        """Print a dramatic event."""
        self._line(text, "bold red")

    def _line(self, text: str, style: str) -> None:
        self.console.print(Text(f"{self.elapsed_s:6.1f} s  ", "dim") + Text(text, style), soft_wrap=True)


class MoveView:
    """Shows one move while it goes on. Other lines appear above it."""

    def __init__(self, narrator: Narrator, brokers_say: str = "") -> None:
        self._narrator = narrator
        self._caption = brokers_say
        self._live: Live | None = None
        self._last_line = ("", 0.0)

    def __enter__(self) -> Self:
        console = self._narrator.console
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(console=console, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Show this progress from now on."""
        if self._live is not None:
            self._live.update(draw(progress, self._caption))
            return
        line = in_one_line(progress)
        last, at = self._last_line
        if line != last and (progress.is_done or self._narrator.elapsed_s - at >= _LINE_EVERY_S):
            self._narrator.say(line)
            self._last_line = (line, self._narrator.elapsed_s)


def in_one_line(progress: Progress) -> str:
    """The essentials, for a log."""
    counts = [f"{progress.count(s)} {s}" for s in Stage if s is not Stage.SETTLED and progress.count(s)]
    moving = f" ({', '.join(counts)})" if counts else ""
    return f"{progress.done} of {len(progress.partitions)} partitions moved{moving}; {leader_of(progress)}"


def leader_of(progress: Progress) -> str:
    """Which controller leads."""
    if progress.controller is None:
        return "no leader"
    kind = "" if progress.controller_is_ours else " (native)"
    return f"controller {progress.controller}{kind}, epoch {progress.controller_epoch}"


def draw(progress: Progress, caption: str = "") -> RenderableType:
    """All partitions with bars."""
    table = Table("partition", "replicas", "leader", "in sync", "stage", "copied", box=None, pad_edge=False)
    for seen in progress.partitions[:_SHOWN_ROWS]:
        table.add_row(*_row(seen, progress.copied))
    if len(progress.partitions) > _SHOWN_ROWS:
        table.add_row(f"… and {len(progress.partitions) - _SHOWN_ROWS} more")
    bar = ProgressBar(total=max(1, len(progress.partitions)), completed=progress.done, width=40)
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(leader_of(progress), "bold"), bar, f"{progress.done} of {len(progress.partitions)} moved", caption
    )
    return Group(Text(), head, table)


def _row(seen: PartitionSeen, copied: Mapping[int, float]) -> tuple[RenderableType, ...]:
    replicas = Text()
    for replica in seen.assignment.replicas:
        style = "yellow" if replica in seen.assignment.adding else "default"
        style = "red strike" if replica in seen.assignment.removing else style
        replicas.append(f"{replica} ", style)
    share = 1.0 if seen.stage is not Stage.CATCHING_UP else copied.get(int(seen.partition), 0.0)
    return (
        str(seen.partition),
        replicas,
        "none" if seen.state is None else str(seen.state.leader),
        "" if seen.state is None else " ".join(map(str, seen.state.isr)),
        Text(seen.stage.value, _COLOURS[seen.stage]),
        ProgressBar(total=1.0, completed=share, width=24),
    )
