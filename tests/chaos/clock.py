"""How is the wall clock of one process set forward or back, and of no other?"""

from __future__ import annotations

import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path

from controller.lab.process import Process

_SOURCE = Path(__file__).with_name("clock.c")
_SECONDS = struct.Struct("q")
STEP_S = 3600


class Clock:
    """The wall clock of one process; its monotonic clock is never touched."""

    def __init__(self, library: Path, file: Path) -> None:
        """As late as the machine's."""
        self._file = file
        self._library = library
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_SECONDS.pack(0))

    def set_ahead(self, seconds: int) -> None:
        """From now on the process is ahead of the machine by this much, or behind it."""
        with self._file.open("r+b") as shared:
            shared.write(_SECONDS.pack(seconds))

    def rule(self, process: Process) -> None:
        """From its next start on the process goes by this clock."""
        process.argv = ("env", f"LD_PRELOAD={self._library}", f"CHAOS_CLOCK={self._file}", *process.argv)


@cache
def clock_library(directory: Path) -> Path | None:
    """What makes clocks settable; None where there is no C compiler, or no Linux."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = directory / "clock.so"
    built = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", library, _SOURCE], capture_output=True, check=False
    )
    return library if built.returncode == 0 else None
