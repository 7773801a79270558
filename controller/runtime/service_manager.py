"""How does this process tell systemd that it is ready, alive, or about to end?

Source: sd_notify(3), sd_watchdog_enabled(3). Where no service manager asks for it, nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Final

from controller.logs.lines import escaped

_BEATS_A_WATCH: Final = 3


class ServiceManager:
    """The other end of `NOTIFY_SOCKET`. Its watchdog hears from the event loop, so it notices one that stands still."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watch = environment.get("WATCHDOG_USEC", "") if is_ours else ""
        self._every_s = int(watch) / 1_000_000 / _BEATS_A_WATCH if watch.isdecimal() and int(watch) else None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        if self._socket is not None:
            self._socket.setblocking(False)
        self._heart: asyncio.TimerHandle | None = None

    def ready(self, loop: asyncio.AbstractEventLoop) -> None:
        """It has started; from now on the watchdog hears that the loop turns."""
        self._send("READY=1")
        if self._every_s is not None:
            self._beat(loop, self._every_s)

    def status(self, text: str) -> None:
        """What `systemctl status` shows."""
        self._send(f"STATUS={escaped(text)}")

    def stopping(self) -> None:
        """It is about to end."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """Send nothing from now on."""
        if self._heart is not None:
            self._heart.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _beat(self, loop: asyncio.AbstractEventLoop, every_s: float) -> None:
        self._send("WATCHDOG=1")
        self._heart = loop.call_later(every_s, self._beat, loop, every_s)

    def _send(self, message: str) -> None:
        if self._socket is not None:
            # One that does not read does not hold us up.
            with contextlib.suppress(OSError):
                self._socket.sendto(message.encode(), self._address)
