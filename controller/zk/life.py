"""How long does a session live? As long as the event loop turns, until it is closed or expires.

Left alone, kazoo's thread would keep the session of a process whose event loop hangs, and with it a claim that serves
no purpose. So it renews the session only while the event loop turns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from kazoo.client import KazooClient, KazooState

from controller.zk import kazoo_internals

_BEATS_A_SESSION: Final = 20
_CLOSE_WITHIN_S: Final = 2.0


class SessionLife:
    """The life of one client's session. `renew` is called on the event loop after that has hung for a while; `failed`
    receives, in the connection's thread, why the session is given up.

    Units:
        `session_s` is in seconds. The session of a loop that hangs for less is kept; that of one that hangs for more
        than one and a half times as long expires. A session without a connection for longer is given up if a server
        accepts new clients but not this one.
    """

    def __init__(
        self, client: KazooClient, session_s: float, renew: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        self._client = client
        self._session_s = session_s
        self._renew = renew
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beaten_at = 0.0
        self._heart: asyncio.TimerHandle | None = None
        self._silent_since: float | None = None
        client.add_listener(self._note_silence)
        kazoo_internals.renew_only_while(client, lambda: self._still_s() < session_s / 2)
        kazoo_internals.give_up_where_only_new_clients_are_accepted(client, self._is_over, failed)

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tie the session to this loop."""
        self._loop, self._beaten_at = loop, loop.time()
        self._beat(loop)

    async def end(self) -> None:
        """Close the session if a server answers soon; otherwise drop the connection, and the session expires."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            # Kazoo waits long for a silent server, and then fails with an error of its own.
            with contextlib.suppress(Exception):
                self._client.stop()
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
                loop.call_soon_threadsafe(stopped.set)

        # Not in the loop's executor: the end of the process would wait for its threads.
        self._client.handler.spawn(stop)
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_WITHIN_S):
                    await stopped.wait()
                break
            kazoo_internals.cut(self._client)
        if self._heart is not None:
            self._heart.cancel()
        if kazoo_internals.has_stopped(self._client):
            self._client.close()

    def _note_silence(self, state: str) -> None:
        # In the connection's thread.
        is_connected = state == KazooState.CONNECTED
        self._silent_since = None if is_connected or self._loop is None else self._loop.time()

    def _is_over(self) -> bool:
        since = self._silent_since
        return since is not None and self._loop is not None and self._loop.time() - since > self._session_s

    def _still_s(self) -> float:
        return 0.0 if self._loop is None else self._loop.time() - self._beaten_at

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        # Schedule the next beat first, so that no error below can stop it.
        self._heart = loop.call_later(self._session_s / _BEATS_A_SESSION, self._beat, loop)
        still_s, self._beaten_at = self._still_s(), loop.time()
        if still_s > self._session_s / 4:
            self._renew()  # pings may have been left out
