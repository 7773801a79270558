"""How do messages travel: late, again, or not at all, but in order on each connection?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from controller.core.messages.effects import Connect, Tell
from controller.core.messages.events import Acknowledged
from controller.lab.broker_model import Acknowledgement
from tests.simulation.clock import Clock
from tests.simulation.zookeeper import SessionExpired
from zk_layout.ids import BrokerId

RETRY_S = 0.1


class Lost:
    """The connection went away before the answer came."""


LOST = Lost()


class Network:
    """Delays and losses, drawn from one seeded source."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.loss = 0.0
        self.slow: dict[BrokerId, float] = {}
        self.deaf: set[BrokerId] = set()  # controllers that cannot be asked whether they live
        self.servers_stand_still_until = 0.0  # ZooKeeper's: what clients send is carried out later

    def delay(self) -> float:
        """The delay of one message: mostly short, now and then long."""
        if self.random.random() < 0.05:
            return self.random.uniform(0.05, 0.5)
        return self.random.uniform(0.001, 0.01)

    def is_lost(self) -> bool:
        """Whether this message gets lost."""
        return self.random.random() < self.loss


class _Answer(NamedTuple):
    deliver: Callable[[Any], None]
    what: Any
    is_watch: bool


class ZkConnection:
    """One client of ZooKeeper: requests arrive in order, answers and watch events come back in one order.

    `perform` runs at the server; `reply` gets its result, or LOST if its outcome is unknown.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._clock = network.clock
        self._requests: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._answers: deque[_Answer] = deque()
        self._arrives_at = self._returns_at = 0.0
        self._is_down = False
        self.is_closed = False

    def call(self, perform: Callable[[], Any], reply: Callable[[Any], None]) -> None:
        """Send a request, unless the connection is closed."""
        if self.is_closed:
            return
        self._requests.append((perform, reply))
        self._arrives_at = max(self._arrives_at, self._clock.now + self._network.delay())
        self._clock.after(self._arrives_at - self._clock.now, self._arrive)

    def push(self, deliver: Callable[[Any], None], what: Any, *, is_watch: bool = True) -> None:
        """Send something to the client, in order; watch events survive a lost connection."""
        self._answers.append(_Answer(deliver, what, is_watch))
        self._returns_at = max(self._returns_at, self._clock.now + self._network.delay())
        self._clock.after(self._returns_at - self._clock.now, self._return)

    def drop(self, down_s: float) -> None:
        """Lose the connection: some requests in flight still reach the server, no answer returns."""
        if self._is_down or self.is_closed:
            return
        reaching = self._network.random.randint(0, len(self._requests))
        for index, (perform, reply) in enumerate(self._drained(self._requests)):
            if index < reaching:
                self._perform(perform)
            self._answers.append(_Answer(reply, LOST, False))
        lost = [a if a.is_watch else a._replace(what=LOST) for a in self._drained(self._answers)]
        self._is_down = True
        self._clock.after(down_s, lambda: self._reconnect(lost))

    def close(self) -> None:
        """The client is gone; requests in flight may still reach the server."""
        self.is_closed = True
        self._answers.clear()
        reaching = self._network.random.randint(0, len(self._requests))
        while len(self._requests) > reaching:
            self._requests.pop()

    @staticmethod
    def _drained(queue: deque[Any]) -> list[Any]:
        drained = list(queue)
        queue.clear()
        return drained

    def _reconnect(self, lost: list[_Answer]) -> None:
        self._is_down = False
        for answer in lost:
            self.push(answer.deliver, answer.what, is_watch=answer.is_watch)
        for _ in self._requests:
            self._clock.after(self._network.delay(), self._arrive)

    def _arrive(self) -> None:
        if self._is_down or not self._requests:
            return
        perform, reply = self._requests.popleft()
        result = self._perform(perform)
        if not self.is_closed:
            self.push(reply, result, is_watch=False)

    @staticmethod
    def _perform(perform: Callable[[], Any]) -> Any:
        try:
            return perform()
        except SessionExpired:
            return LOST

    def _return(self) -> None:
        if not self._answers or self.is_closed:
            return
        answer = self._answers.popleft()
        answer.deliver(answer.what)


class Line:
    """A TCP connection to a ZooKeeper server: frames arrive in order, late, or not at all.

    `to_server` and `to_client` take each frame that arrives; `ended` is called when the client notices that the server
    has hung up.
    """

    def __init__(self, network: Network, to_client: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._network = network
        self._clock = network.clock
        self._to_client = to_client
        self._ended = ended
        self._sent: deque[bytes] = deque()
        self._answers: deque[bytes | None] = deque()
        self._arrives_at = self._returns_at = 0.0
        self.to_server: Callable[[bytes], None] = lambda _: None
        self.is_open = True

    def send(self, frame: bytes) -> None:
        """From the client to the server."""
        if self.is_open:
            self._sent.append(frame)
            arrives_at = self._clock.now + self._network.delay()
            self._arrives_at = max(self._arrives_at, arrives_at, self._network.servers_stand_still_until)
            self._clock.after(self._arrives_at - self._clock.now, self._arrive)

    def answer(self, frame: bytes) -> None:
        """From the server to the client."""
        self._return_later(frame)

    def hang_up(self) -> None:
        """The server closes it; frames sent before still arrive."""
        self._sent.clear()
        self._return_later(None)

    def cut(self) -> None:
        """Lose it: some frames in flight still reach the server, none the client."""
        if not self.is_open:
            return
        self._answers.clear()
        reaching = self._network.random.randint(0, len(self._sent))
        for _ in range(reaching):
            if self._sent:
                self.to_server(self._sent.popleft())
        self.is_open = False
        self._sent.clear()
        self._answers.clear()

    def _return_later(self, frame: bytes | None) -> None:
        if self.is_open:
            self._answers.append(frame)
            self._returns_at = max(self._returns_at, self._clock.now + self._network.delay())
            self._clock.after(self._returns_at - self._clock.now, self._return)

    def _arrive(self) -> None:
        if self._sent:
            self.to_server(self._sent.popleft())

    def _return(self) -> None:
        if not self._answers or not self.is_open:
            return
        frame = self._answers.popleft()
        if frame is None:
            self.is_open = False
            self._ended()
        else:
            self._to_client(frame)


class Link:
    """One controller's channel to one broker: in order, one command in flight, repeated until answered.

    `deliver` hands a command to the process that runs there now (None: no answer).
    """

    def __init__(
        self,
        network: Network,
        connect: Connect,
        deliver: Callable[[Tell], Acknowledgement | None],
        answered: Callable[[Acknowledged], None],
    ) -> None:
        self._network = network
        self._connect = connect
        self._deliver = deliver
        self._answered = answered
        self._queue: deque[Tell] = deque()
        self._is_busy = False
        self.is_open = True

    @property
    def is_idle(self) -> bool:
        """Whether every command has been acknowledged."""
        return not self._queue

    def tell(self, tell: Tell) -> None:
        """Send a command after all earlier ones."""
        self._queue.append(tell)
        self._next()

    def close(self) -> None:
        """Drop queued commands; one in flight may still arrive."""
        self.is_open = False
        self._queue.clear()

    def _next(self) -> None:
        if self.is_open and not self._is_busy and self._queue:
            self._is_busy = True
            self._send(self._queue[0])

    def _send(self, tell: Tell) -> None:
        slow = self._network.slow.get(tell.broker, 0.0)
        delay = self._network.delay() + slow
        if self._network.is_lost():
            self._network.clock.after(delay + RETRY_S, lambda: self._again(tell))
            return
        self._network.clock.after(delay, lambda: self._arrive(tell))

    def _arrive(self, tell: Tell) -> None:
        answer = self._deliver(tell)
        if answer is None or self._network.is_lost():
            self._network.clock.after(RETRY_S, lambda: self._again(tell))
            return
        self._network.clock.after(self._network.delay(), lambda: self._done(tell, answer))

    def _again(self, tell: Tell) -> None:
        if self.is_open:
            self._send(tell)

    def _done(self, tell: Tell, answer: Acknowledgement) -> None:
        if not self.is_open:
            return
        self._queue.popleft()
        self._is_busy = False
        self._answered(Acknowledged(tell.broker, tell.broker_epoch, tell.command, answer.error, answer.errors))
        self._next()
