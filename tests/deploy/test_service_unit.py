"""Is the unit sound, does it confine the process, and is a process that hangs ended and started again?

The last is played: the test is the service manager, and does what systemd does with the unit's settings.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import closing
from pathlib import Path

import pytest

from controller.demo.waiting import wait_for
from controller.lab.ports import free_ports
from controller.lab.process import Process

UNIT = Path(__file__).parents[2] / "deploy/kafka-zk-controller.service"
# What systemd-analyze makes of it, in tenths. Most of the rest is the network, which it needs.
MOST_EXPOSED = 17
WATCHDOG_S = 2.0
HANG = signal.SIGRTMIN
# In the main thread, where the event loop is.
HANGING = "import signal, time\nsignal.signal(signal.SIGRTMIN, lambda *_: time.sleep(600))\n"


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze: it is part of systemd")
    argv = ["systemd-analyze", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    program = tmp_path / "kafka-zk-controller"
    program.touch(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/kafka-zk-controller/bin/kafka-zk-controller", str(program)))

    done = analyze("verify", unit)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_process_is_confined() -> None:
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}", UNIT)

    assert done.returncode == 0, done.stdout + done.stderr


class Manager:
    """What systemd does for a unit of Type=notify with a watchdog."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        unit = ConfigParser(strict=False, interpolation=None)
        unit.read(UNIT)
        self.service = unit["Service"]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(directory / "notify"))
        environment = {
            "NOTIFY_SOCKET": str(directory / "notify"),
            "WATCHDOG_USEC": str(int(WATCHDOG_S * 1_000_000)),
            "PYTHONPATH": os.pathsep.join((str(directory), *filter(None, sys.path))),
        }
        argv = [sys.executable, "-m", "controller", *arguments]
        self.process = Process("replica", argv, directory / "log", env=environment)

    def start(self) -> None:
        """Start the program, and wait until it is ready."""
        self.process.start()
        assert self.hears("READY=1", 110), self.process.tail(100)

    def hears(self, message: str, within_s: float) -> bool:
        """Whether the process sends it in time."""
        deadline = time.monotonic() + within_s
        while (left_s := deadline - time.monotonic()) > 0:
            if select.select([self._socket], [], [], left_s)[0] and self._socket.recv(4096).decode() == message:
                return True
        return False

    def exit_code(self, within_s: float) -> int | None:
        """How the process has ended, which it does in time."""
        wait_for(lambda: not self.process.is_alive, "it ended", timeout_s=within_s)
        return self.process.exit_code

    def close(self) -> None:
        self.process.kill()
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    (tmp_path / "sitecustomize.py").write_text(HANGING)
    port, http_port = free_ports(2)
    settings = {
        "zookeeper.connect": "127.0.0.1:1",  # it is ready when it listens
        "broker.id": 901,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "http.port": http_port,
    }
    with closing(Manager(tmp_path, "run", *(f"--set={key}={value}" for key, value in settings.items()))) as found:
        yield found


@pytest.mark.timeout(300)
def test_a_process_that_hangs_is_ended_with_its_stack_and_started_again(manager: Manager) -> None:
    assert (manager.service["type"], manager.service["restart"]) == ("notify", "always")
    manager.start()
    assert all(manager.hears("WATCHDOG=1", WATCHDOG_S) for _ in range(3))

    manager.process.signal(HANG)
    while manager.hears("WATCHDOG=1", WATCHDOG_S):
        pass
    assert manager.process.is_alive, "it hangs, and lives"
    manager.process.signal(signal.SIGABRT)

    assert (ended := manager.exit_code(10)) == -signal.SIGABRT
    assert str(ended) != manager.service["restartpreventexitstatus"]
    stack = manager.process.log_file.read_text("utf-8")
    assert "Fatal Python error: Aborted" in stack
    assert "sitecustomize.py" in stack
    manager.start()
    assert manager.hears("WATCHDOG=1", WATCHDOG_S)
    manager.process.signal(signal.Signals[manager.service["killsignal"]])
    assert manager.hears("STOPPING=1", 15)
    assert manager.exit_code(15) == 0
