"""Which requests wait for an answer of the present term?"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from controller.core.clients.refusal import refusal
from controller.core.messages.effects import Answer
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import Reply
from controller.core.messages.requests import Caller, Request
from controller.wire.apis import STANDING_BY, requests_of

OF_ANY_NODE = requests_of(STANDING_BY)


class NothingKnown(Exception):
    """A process that does not lead cannot answer what clients ask of any node; a refusal would be believed."""


class Inquiries:
    """Brings requests to the term and its answers back; without a term every request is refused at once.

    Every request is answered exactly once, by the term or when it ends. An answer for somebody who has hung up
    goes nowhere.
    """

    def __init__(self) -> None:
        self._emit: Callable[[Asked], None] | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[CallId, tuple[Request, asyncio.Future[Reply]]] = {}

    @property
    def waiting(self) -> int:
        """How many requests wait for an answer."""
        return len(self._waiting)

    @property
    def is_led(self) -> bool:
        """Whether there is a term that answers."""
        return self._emit is not None

    def begin_term(self, emit: Callable[[Asked], None]) -> None:
        """From now on requests go there."""
        self._emit = emit

    def refuse_all(self, error: ErrorCode = ErrorCode.NOT_CONTROLLER) -> None:
        """The term is over: refuse what waits, and what comes until the next one begins."""
        self._emit = None
        waiting, self._waiting = self._waiting, {}
        for request, future in waiting.values():
            if not future.done():
                _refuse(future, request, error)

    def answer(self, answer: Answer) -> None:
        """The term's answer to one request."""
        found = self._waiting.pop(answer.call, None)
        if found is not None and not found[1].done():
            found[1].set_result(answer.reply)

    async def ask(self, request: Request, caller: Caller) -> Reply:
        """The answer to a request, be it a refusal.

        Raises:
            NothingKnown: something was asked for that any node answers, and this process does not lead.
        """
        if self._emit is None:
            if isinstance(request, OF_ANY_NODE):
                raise NothingKnown
            return refusal(request, ErrorCode.NOT_CONTROLLER)
        ask = CallId(next(self._numbers))
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[ask] = (request, future)
        try:
            self._emit(Asked(ask, request, caller))
            return await future
        finally:
            self._waiting.pop(ask, None)


def _refuse(future: asyncio.Future[Reply], request: Request, error: ErrorCode) -> None:
    if isinstance(request, OF_ANY_NODE):
        future.set_exception(NothingKnown())
    else:
        future.set_result(refusal(request, error))
