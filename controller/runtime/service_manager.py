"""How does this process report to systemd that it is ready, alive, or about to end?

Source: sd_notify(3), sd_watchdog_enabled(3). Sends nothing if no service manager asks for it.
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
    """The other end of `NOTIFY_SOCKET`. The watchdog is fed from the event loop, so it notices when that hangs."""

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
        """The process has started; from now on, feed the watchdog while the loop turns."""
        self._send("READY=1")
        if self._every_s is not None:
            self._beat(loop, self._every_s)

    def status(self, text: str) -> None:
        """The text that `systemctl status` shows."""
        self._send(f"STATUS={escaped(text)}")

    def stopping(self) -> None:
        """The process is about to end."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """Send nothing more."""
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
            # A reader that does not read must not block us.
            with contextlib.suppress(OSError):
                self._socket.sendto(message.encode(), self._address)
