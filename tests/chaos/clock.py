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
        self._file = file
        self._library = library
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_SECONDS.pack(0))

    def set_ahead(self, seconds: int) -> None:
        """Set the process' clock ahead of the machine's by this much, or behind."""
        with self._file.open("r+b") as shared:
            shared.write(_SECONDS.pack(seconds))

    def rule(self, process: Process) -> None:
        """Make the process use this clock from its next start on."""
        process.argv = ("env", f"LD_PRELOAD={self._library}", f"CHAOS_CLOCK={self._file}", *process.argv)


@cache
def clock_library(directory: Path) -> Path | None:
    """The library that makes clocks settable; None without a C compiler, or off Linux."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = directory / "clock.so"
    built = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", library, _SOURCE], capture_output=True, check=False
    )
    return library if built.returncode == 0 else None
