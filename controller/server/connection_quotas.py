"""Which connections are admitted, and which one is closed when there is no room?

Brokers come first: on the inter-broker listener a newcomer is always admitted while any client is connected. When all
places are taken, the newcomer must first identify itself: until then it is one of a few beyond the limit, of which the
next newcomer displaces one, from the address that has most of them. Once it has logged in, or made a request that only
brokers make, it displaces the client that has been idle longest or has hung up while being answered. A newcomer that
has made only other requests displaces no client that has logged in. On other listeners, newcomers beyond the limit are
refused.

Source: Kafka's ConnectionQuotas and `closeLowestPriorityChannel`; KIP-402, KIP-612.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from controller.settings.limits import Limits

NO_ROOM = "too many connections"
ADDRESS_FULL = "too many connections from one address"
LISTENER_FULL = "too many connections on one listener"
REFUSED_FOR = (NO_ROOM, ADDRESS_FULL, LISTENER_FULL)
_GRACE_S = 5.0
_UNLIMITED = 2**31 - 1


class OpenConnection:
    """One admitted connection.

    Shape:
        `since` is when it was admitted or last made a request; `leave` closes it; `has_hung_up` says whether the client
        has gone, which nothing else notices while its request is being answered.
    """

    def __init__(self, listener: str, address: str, since: float) -> None:
        """A new connection that cannot be closed from here yet."""
        self.listener = listener
        self.address = address
        self.since = since
        self.leave: Callable[[], object] = _nothing
        self.has_hung_up: Callable[[], bool] = _stays
        self.is_broker = self.is_busy = self.is_known = self.is_identified = self.is_leaving = False
        self.unsent_since: float | None = None


class TurnedAway(Exception):
    """The connection must be refused; the text is a short, stable reason."""


class ConnectionQuotas:
    """The connections of all listeners."""

    def __init__(self, limits: Limits, inter_broker_listener: str | None = None) -> None:
        self._limits = limits
        self.inter_broker_listener = inter_broker_listener
        self._connections: dict[OpenConnection, None] = {}
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._unsent: dict[int, tuple[int, int]] = {}
        self.unsent_bytes = 0

    def __len__(self) -> int:
        return len(self._connections)

    def adjust(self, limits: Limits) -> None:
        """Follow changed limits. Connections beyond them stay until they end."""
        self._limits = limits

    def enter(self, connection: OpenConnection) -> OpenConnection | None:
        """Admit a connection; return the one to close for it, if any.

        Raises:
            TurnedAway: there is no room, or none for this listener or address.
        """
        limits, address, listener = self._limits, connection.address, connection.listener
        most = limits.most_for_address.get(address, limits.most_per_address)
        if self._by_address[address] >= most:
            raise TurnedAway(ADDRESS_FULL)
        leaving = None
        around, reason = self._crowd(listener, 1)
        if reason and listener != self.inter_broker_listener:
            raise TurnedAway(reason)
        if reason and self._crowd(listener, 1 - limits.most_newcomers)[1]:
            leaving = self._newcomer_to_go(around) or self._least_missed(c for c in around if not c.is_identified)
            if leaving is None:
                raise TurnedAway(reason)
        self._connections[connection] = None
        self._by_listener[listener] += 1
        self._by_address[address] += 1
        if leaving is not None:
            self._displace(leaving)
        return leaving

    def settle(self, connection: OpenConnection) -> OpenConnection | None:
        """The connection has identified itself, or done so more precisely. If it was beyond the limit, return the
        connection to close for it.

        That may be the connection itself, if all others are brokers'. One that has only made a request, as brokers do
        first where no login is needed, may stay beyond the limit.
        """
        if connection.listener != self.inter_broker_listener or not self._crowd(connection.listener, 0)[1]:
            return None
        fresh = {c for c in self._connections if self._is_fresh(c, connection.since)}
        around, reason = self._crowd(connection.listener, -min(len(fresh), self._limits.most_newcomers))
        if not reason:
            return None
        may_push_all = connection.is_broker or connection.is_identified
        others = (c for c in around if c not in fresh | {connection} and (may_push_all or not c.is_identified))
        leaving = self._least_missed(others) or (connection if may_push_all else None)
        if leaving is not None:
            self._displace(leaving)
        return leaving

    def _crowd(self, listener: str, more: int) -> tuple[list[OpenConnection], str]:
        """The connections in the way of `more` newcomers on a listener, and the reason; no reason if there is room."""
        limits = self._limits
        if self._by_listener[listener] + more > limits.most_per_listener.get(listener, _UNLIMITED):
            return [c for c in self._connections if c.listener == listener], LISTENER_FULL
        if len(self._connections) + more > limits.most_connections:
            return list(self._connections), NO_ROOM
        return [], ""

    def _is_fresh(self, connection: OpenConnection, now: float) -> bool:
        """Whether it may be a broker that has had no time to identify itself."""
        is_newcomer = connection.listener == self.inter_broker_listener and not connection.is_known
        return is_newcomer and not connection.is_broker and now - connection.since < _GRACE_S

    def _newcomer_to_go(self, connections: Iterable[OpenConnection]) -> OpenConnection | None:
        """An unidentified connection to close: from the address with most of them, which leaves others time."""
        newcomers = [c for c in connections if not (c.is_known or c.is_broker or c.is_busy)]
        of_address = Counter(c.address for c in newcomers)
        return min(newcomers, key=lambda c: (-of_address[c.address], c.since), default=None)

    def left(self, connection: OpenConnection) -> None:
        """A connection has ended."""
        connection.is_leaving = True
        if connection not in self._connections:
            return
        del self._connections[connection]
        for counter, key in ((self._by_listener, connection.listener), (self._by_address, connection.address)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def hold(self, connection: OpenConnection, answer: bytes, now: float) -> OpenConnection | None:
        """An answer is being sent. Return the connection to close, the one that has left its own answer unread longest,
        if too much is held.

        An answer that several clients share is counted once.
        """
        connection.unsent_since = now
        holders, size = self._unsent.get(id(answer), (0, len(answer)))
        self._unsent[id(answer)] = (holders + 1, size)
        self.unsent_bytes += 0 if holders else size
        if self.unsent_bytes <= self._limits.unsent_bytes:
            return None
        sending = [c for c in self._connections if c.unsent_since is not None and c is not connection]
        slowest = min(sending, key=lambda c: (c.is_broker, c.unsent_since or 0.0), default=None)
        if slowest is not None:
            self._displace(slowest)
        return slowest

    def release(self, connection: OpenConnection, answer: bytes) -> None:
        """An answer was sent or given up."""
        connection.unsent_since = None
        holders, size = self._unsent.pop(id(answer))
        if holders > 1:
            self._unsent[id(answer)] = (holders - 1, size)
        else:
            self.unsent_bytes -= size

    def _displace(self, connection: OpenConnection) -> None:
        self.left(connection)
        connection.leave()

    def _least_missed(self, connections: Iterable[OpenConnection]) -> OpenConnection | None:
        """The best connection to close: idle clients on other listeners than the brokers' first, then those that never
        made a request.

        Among equals, those that no longer wait for their answer go first.
        """
        clients = [c for c in connections if not c.is_broker]
        chosen = min(
            clients,
            key=lambda c: (c.is_busy, c.is_known, c.is_identified, c.listener == self.inter_broker_listener, c.since),
            default=None,
        )
        if chosen is None or not chosen.is_known:
            return chosen
        return next((c for c in clients if c.is_busy and c.has_hung_up()), chosen)


def _nothing() -> None:
    """For a connection that cannot be closed yet."""


def _stays() -> bool:
    """For a connection whose end cannot be seen yet."""
    return False
