"""Does systemd get its notifications, and only from a loop that turns?"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.runtime.service_manager import ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket systemd listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def heard(manager: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(manager.recv(4096).decode())
        except BlockingIOError:
            return found


def test_it_says_that_it_is_ready_what_it_does_and_that_it_ends(manager: socket.socket) -> None:
    async def story() -> None:
        service = ServiceManager({"NOTIFY_SOCKET": manager.getsockname()})
        service.ready(asyncio.get_running_loop())
        service.status("standby: /controller\nMAINPID=1")
        service.stopping()
        service.close()
        service.stopping()

    asyncio.run(story())
    assert heard(manager) == ["READY=1", "STATUS=standby: /controller\\nMAINPID=1", "STOPPING=1"]


def test_the_watchdog_hears_of_a_loop_only_while_it_turns(manager: socket.socket) -> None:
    async def story() -> None:
        service = ServiceManager({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "60000"})
        service.ready(asyncio.get_running_loop())
        await asyncio.sleep(0.15)
        assert heard(manager).count("WATCHDOG=1") >= 3
        time.sleep(0.2)
        assert heard(manager) == []
        await asyncio.sleep(0.05)
        assert "WATCHDOG=1" in heard(manager)
        service.close()
        await asyncio.sleep(0.05)
        assert heard(manager) == []

    asyncio.run(story())


@pytest.mark.parametrize(
    "asked", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "9000", "WATCHDOG_PID": "1"}]
)
def test_without_a_watchdog_of_ours_only_the_start_is_reported(manager: socket.socket, asked: dict[str, str]) -> None:
    async def story() -> None:
        service = ServiceManager({"NOTIFY_SOCKET": manager.getsockname(), **asked})
        service.ready(asyncio.get_running_loop())
        await asyncio.sleep(0.02)
        service.close()

    asyncio.run(story())
    assert heard(manager) == ["READY=1"]


def test_an_abstract_address_is_understood() -> None:
    name = f"kafka-zk-controller-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name)
        service = ServiceManager({"NOTIFY_SOCKET": f"@{name}"})
        service.stopping()
        service.close()
        assert listening.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("address", ["", "/no/such/socket"])
def test_a_missing_listener_does_no_harm(address: str) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": address} if address else {})
    service.status("standby")
    service.close()


def test_one_that_does_not_read_blocks_nothing(manager: socket.socket) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": manager.getsockname()})
    began = time.monotonic()
    for _ in range(10_000):
        service.status("x" * 1_000)
    service.close()
    assert time.monotonic() - began < 5
