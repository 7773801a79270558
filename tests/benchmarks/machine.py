"""What else did this machine do meanwhile? Processor time and memory by Linux' accounts."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

from msgspec import Struct

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_SHORT_SAMPLE_S = 0.5
_MEGABYTE = 1024 * 1024


class Usage(Struct, frozen=True):
    """Processor seconds, since boot or within an interval: of all, and of some processes."""

    at: float
    busy_s: float
    by_process: dict[str, float]

    def since(self, earlier: Usage) -> Usage:
        """The difference; `at` becomes a duration."""
        return Usage(
            self.at - earlier.at,
            self.busy_s - earlier.busy_s,
            {name: used - earlier.by_process.get(name, 0.0) for name, used in self.by_process.items()},
        )

    @property
    def others_s(self) -> float:
        """The time used by other processes."""
        return max(0.0, self.busy_s - sum(self.by_process.values()))


def usage(processes: dict[str, int]) -> Usage:
    """The usage until now."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, _steal = fields
    busy_s = (user + nice + system + irq + softirq) / _TICKS_A_SECOND
    return Usage(time.monotonic(), busy_s, {name: _used_s(pid) for name, pid in processes.items()})


def _used_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def peak_resident_mib(pid: int) -> float:
    """The peak memory of a running process."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024


def wait_until_quiet(patience_s: float, busy_processors: float = 0.3, sample_s: float = 3.0) -> float:
    """Wait until the machine is quiet, or patience ends; return how many processors were busy at last.

    Without patience the sample is short.
    """
    sample_s = sample_s if patience_s else _SHORT_SAMPLE_S
    deadline = time.monotonic() + patience_s
    while True:
        before = usage({})
        time.sleep(sample_s)
        used = usage({}).since(before)
        busy = used.busy_s / used.at
        if busy < busy_processors or time.monotonic() > deadline:
            return busy


def written_bytes(directory: Path, pattern: str) -> int:
    """The size of files without the zeros they are padded with."""
    return sum(_unpadded(path) for path in directory.rglob(pattern))


def _unpadded(path: Path) -> int:
    size = path.stat().st_size
    with path.open("rb") as file:
        while size:
            step = min(size, _MEGABYTE)
            file.seek(size - step)
            kept = len(file.read(step).rstrip(b"\0"))
            if kept:
                return size - step + kept
            size -= step
    return 0


def description() -> str:
    """This machine in a line."""
    model = re.search(r"model name\s+: (.+)", Path("/proc/cpuinfo").read_text())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (
        f"{os.cpu_count()} processors ({model[1] if model else platform.machine()}), {pages / 1024**3:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )
