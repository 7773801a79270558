"""How does a server process start, show that it is ready, and reliably end?

Each process leads a process group of its own and dies with this one: on Linux even when this one is killed.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from controller.lab.errors import ServerFailed

# Linux ends a child when the *thread* that forked it ends, so one lasting thread forks them all.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab-spawner")
_running: weakref.WeakSet["Process"] = weakref.WeakSet()

# Run by the new process before it becomes the server: PR_SET_PDEATHSIG is 1.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]): sys.exit(1)
os.execvpe(sys.argv[2], sys.argv[2:], os.environ)
"""


class Process:
    """A server as an operating system process, with a log file; can be started again after it has ended."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        log_file: Path,
        *,
        env: Mapping[str, str] | None = None,
        outlives_us: bool = False,
    ) -> None:
        self.name = name
        self.argv = tuple(str(part) for part in argv)
        self.log_file = log_file
        self._env = {**os.environ, **(env or {})}
        self._outlives_us = outlives_us
        self._popen: subprocess.Popen[bytes] | None = None
        self._group_id = 0
        self._log_offset = 0

    def __repr__(self) -> str:
        return f"<Process {self.name} pid={self.pid} exit_code={self.exit_code}>"

    @property
    def pid(self) -> int | None:
        """The process id while and after it runs; absent before the first start."""
        return self._popen.pid if self._popen else None

    @property
    def exit_code(self) -> int | None:
        """Absent while it runs or before the first start; negative: ended by that signal."""
        return self._popen.poll() if self._popen else None

    @property
    def is_alive(self) -> bool:
        """Whether it runs now."""
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        """Start it; returns at once. Its output is appended to the log file.

        Raises:
            ServerFailed: It is already running, or the executable cannot be run.
        """
        if self.is_alive:
            raise ServerFailed(f"{self.name} is already running (pid {self.pid})")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._log_offset = self.log_file.stat().st_size if self.log_file.exists() else 0
        argv = self.argv
        if sys.platform == "linux" and not self._outlives_us:
            argv = (sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *argv)
        try:
            self._popen = _spawner.submit(self._spawn, argv).result()
        except OSError as error:
            raise ServerFailed(f"{self.name} cannot be started: {error}") from error
        self._group_id = self._popen.pid
        if not self._outlives_us:
            _running.add(self)

    def _spawn(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )

    def stop(self, timeout_s: float = 15.0) -> None:
        """Ask it to end (SIGTERM) and wait; after the timeout, kill it. Does nothing if it does not run."""
        if self._popen is None:
            return
        if self.is_alive:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """End it and all its children at once (SIGKILL) and wait until it is gone."""
        if self._popen is None:
            return
        if self._popen.returncode is None:
            self.signal(signal.SIGKILL)
            self._popen.wait()
        _running.discard(self)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and its children, such as SIGSTOP to make it hang and SIGCONT to resume it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group_id, number)

    def tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - 400 * lines))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def output_since_start(self) -> bytes:
        """Its output since the last start."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(self._log_offset)
                return log.read()
        except FileNotFoundError:
            return b""

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float, *, waiting_for: str) -> None:
        """Poll until it is ready.

        Raises:
            ServerFailed: It ended, or the time is up; with the tail of its log.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.is_alive:
                raise ServerFailed(self._explain(f"ended with exit code {self.exit_code} before {waiting_for}"))
            if is_ready():
                return
            if time.monotonic() > deadline:
                raise ServerFailed(self._explain(f"took more than {timeout_s:g} s before {waiting_for}"))
            time.sleep(0.05)

    def _explain(self, what: str) -> str:
        tail = self.tail() or "(its log is empty)"
        return f"{self.name} {what}\n--- the end of {self.log_file} ---\n{tail}"


@atexit.register
def _kill_all() -> None:
    for process in list(_running):
        process.kill()
