"""Which requests wait for an answer of the current term?"""

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
from controller.wire.apis import BY_BROKERS_ON_STANDBY, requests_of

OF_ANY_NODE = requests_of(BY_BROKERS_ON_STANDBY)


class NotLeading(Exception):
    """A process that does not lead cannot answer requests for any node; clients would believe an error answer."""


class Inquiries:
    """Passes requests to the term and its answers back. Without a term, refuses every request at once.

    Every request gets exactly one answer, from the term or at the term's end. An answer for a client that has gone is
    dropped.
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
        """Whether a term is answering."""
        return self._emit is not None

    def begin_term(self, emit: Callable[[Asked], None]) -> None:
        """Pass requests to this term from now on."""
        self._emit = emit

    def refuse_all(self, error: ErrorCode = ErrorCode.NOT_CONTROLLER) -> None:
        """The term is over: refuse waiting requests, and new ones until the next term begins."""
        self._emit = None
        waiting, self._waiting = self._waiting, {}
        for request, future in waiting.values():
            if not future.done():
                _refuse(future, request, error)

    def answer(self, answer: Answer) -> None:
        """Deliver the term's answer to one request."""
        found = self._waiting.pop(answer.call, None)
        if found is not None and not found[1].done():
            found[1].set_result(answer.reply)

    async def ask(self, request: Request, caller: Caller) -> Reply:
        """The answer, or an error answer.

        Raises:
            NotLeading: the request is for any node, and this process does not lead.
        """
        if self._emit is None:
            if isinstance(request, OF_ANY_NODE):
                raise NotLeading
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
        future.set_exception(NotLeading())
    else:
        future.set_result(refusal(request, error))
