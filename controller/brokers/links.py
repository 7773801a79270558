"""Which link carries a command, and what happens to links as brokers come and go?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from controller.brokers.dialing import PlaintextDialer
from controller.brokers.joining import Joining
from controller.brokers.link import Link, Terms
from controller.brokers.observing import LinkObserver, Unobserved
from controller.brokers.rounds import Rounds
from controller.connections.broker import Dialer
from controller.core.messages.effects import Connect, Disconnect, Tell
from controller.core.messages.events import Acknowledged
from controller.wire.commands import CommandEncoder
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint

_log = structlog.get_logger(__name__)
_NOWHERE_PORT = 0


class Links:
    """Carries out `Connect`, `Disconnect` and `Tell`, for as long as one term lasts.

    `on_broken` receives an error that no repetition can cure: a command that cannot be encoded.
    """

    def __init__(  # noqa: PLR0913 - each is a seam of its own, and most have a default
        self,
        encoder: CommandEncoder,
        listener_name: str,
        emit: Callable[[Acknowledged], None],
        observer: LinkObserver | None = None,
        timeout_s: float = 30.0,
        *,
        dialer: Dialer | None = None,
        on_broken: Callable[[BaseException], None] | None = None,
        control_plane_listener: str = "",
    ) -> None:
        """`listener_name` is the inter-broker listener, used for brokers without the `control_plane_listener`."""
        self._encoder = encoder
        self._listener_name = listener_name
        self._control_plane_listener = control_plane_listener
        self._on_broken = on_broken
        self._terms = Terms(
            encoder,
            dialer or PlaintextDialer(),
            self._acknowledged,
            observer or Unobserved(),
            Rounds(),
            Joining(),
            timeout_s,
        )
        self._emit = emit
        self._links: dict[BrokerId, Link] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._haste = asyncio.Event()

    def connect(self, connect: Connect) -> None:
        """Open a link to a registration of a broker. A link to an earlier one is closed, and its queue dropped."""
        endpoint = None
        if self._control_plane_listener:
            endpoint = connect.registration.endpoint(self._control_plane_listener)
        if endpoint is None:
            endpoint = connect.registration.endpoint(self._listener_name)
        if endpoint is None:
            _log.error(
                "broker lacks the inter-broker listener and cannot receive commands; add it to its listeners",
                broker=connect.broker,
                listener=self._listener_name,
                registered=[str(e) for e in connect.registration.endpoints],
            )
            # Nothing listens there: the queue waits until the broker registers again.
            endpoint = Endpoint(self._listener_name, "127.0.0.1", _NOWHERE_PORT)
        known = self._links.get(connect.broker)
        if known is not None and known.broker_epoch == connect.broker_epoch:
            known.readdress(endpoint)
            return
        if known is not None:
            self._close(known)
        link = Link(connect.broker, connect.broker_epoch, endpoint, self._terms)
        link.task.add_done_callback(self._ended)
        self._links[connect.broker] = link

    def disconnect(self, disconnect: Disconnect) -> None:
        """Close the link to a broker and drop its queue."""
        link = self._links.pop(disconnect.broker, None)
        if link is not None:
            self._close(link)

    def tell(self, tell: Tell) -> None:
        """Queue a command; one for a broker's earlier registration is dropped."""
        link = self._links.get(tell.broker)
        if link is not None and link.broker_epoch == tell.broker_epoch:
            link.tell(tell)
            return
        _log.info(
            "command dropped: the broker has left or restarted since",
            broker=tell.broker,
            broker_epoch=tell.broker_epoch,
            command=type(tell.command).__name__,
        )

    def are_commands_queued(self) -> bool:
        """Whether a command waits behind one that its broker has not answered."""
        return any(link.depth > 1 for link in self._links.values())

    async def drain(self, timeout_s: float) -> bool:
        """Wait until every command has been acknowledged. False on a timeout, or if the wait was cut short."""
        waits = [asyncio.ensure_future(link.until_idle()) for link in self._links.values()]
        if not waits:
            return True
        haste = asyncio.ensure_future(self._haste.wait())
        all_idle = asyncio.gather(*waits)
        await asyncio.wait((all_idle, haste), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        is_drained = all_idle.done()
        for wait in (haste, all_idle):
            wait.cancel()
        await asyncio.gather(haste, all_idle, return_exceptions=True)
        return is_drained

    def answer_within(self, timeout_s: float) -> None:
        """Give brokers so long for each answer from now on."""
        self._terms.timeout_s = timeout_s

    def cut_short(self) -> None:
        """Stop waiting for brokers."""
        self._haste.set()

    async def close(self) -> None:
        """Close every link, without waiting for brokers."""
        for link in self._links.values():
            self._close(link)
        self._links.clear()
        if self._closing:
            await asyncio.wait(set(self._closing))

    def _close(self, link: Link) -> None:
        self._closing.add(link.task)
        link.task.add_done_callback(self._closing.discard)
        link.close()

    def _acknowledged(self, acknowledged: Acknowledged) -> None:
        if not any(link.depth for link in self._links.values()):
            self._encoder.forget()
            self._terms.joining.forget()
            self._terms.rounds.forget()
        self._emit(acknowledged)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        _log.error("the connection to a broker failed with an internal error", link=task.get_name(), exc_info=error)
        if self._on_broken is not None:
            self._on_broken(error)
