"""How are requests with very many parts taken in? Some parts a turn, one request after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from controller.core.clients.open_requests import Divided, Item, OpenRequests, refused
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Again, CallId
from controller.core.messages.outbox import Outbox
from controller.core.scheduling.agenda import Agenda

TAKEN_IN_AT_ONCE = 20_000


class LongRequests:
    """The long requests of one duty, until their topics have all parts."""

    def __init__(self, requests: OpenRequests, agenda: Agenda) -> None:
        self._requests = requests
        self._agenda = agenda
        self._calls: deque[CallId] = deque()

    def open(self, call: CallId, request: Divided, items: Iterator[Item], size: int, out: Outbox) -> None:
        """Open a request with `size` parts, and take in the first."""
        self.hold(call, request, items, size, out)
        self.start(call, out)

    def hold(self, call: CallId, request: Divided, items: Iterator[Item], size: int, out: Outbox) -> None:
        """Open a request whose parts wait until it is started, refused, or out of time."""
        self._requests.open_bit_by_bit(call, request, items, size, out)

    def start(self, call: CallId, out: Outbox) -> None:
        """Take in the first parts of a request that was held."""
        self._calls.append(call)
        self.go_on(out)

    def refuse(self, call: CallId, why: str, out: Outbox) -> None:
        """Refuse all parts of a request that was held."""
        while items := self._requests.go_on(call, TAKEN_IN_AT_ONCE):
            for item in items:
                self._requests.settle(item, refused(item, ErrorCode.UNKNOWN_SERVER_ERROR, why), out)

    def go_on(self, out: Outbox) -> None:
        """Queue as many parts for their topics as fit this turn."""
        left = TAKEN_IN_AT_ONCE
        while self._calls and left > 0:
            items = self._requests.go_on(self._calls[0], left)
            if not items:
                self._calls.popleft()
            left -= len(items)
            for name in dict.fromkeys(item.at.topic for item in items):
                self._agenda.add(name, is_urgent=True)
        if self._calls:
            out.wake(Again(), out.now)
