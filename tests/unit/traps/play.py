"""How does a test of a trap play a scenario and look at what came of it?"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.messages.effects import Effect, Measured, Read, Recorded, Tell
from controller.core.state.cluster import ClusterState
from tests.scenarios.commands import obey
from tests.scenarios.theatre import Theatre
from zk_layout import catalog
from zk_layout.facts import Fact, present


class Stage(Theatre):
    """Keeps what the controller orders: commands as it sent them, reads, lines of the audit trail, and figures.

    Shape:
        An effect for which `is_held` is true is not carried out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Tell] = []
        self.reads: list[Read] = []
        self.recorded: list[Recorded] = []
        self.measured: list[Measured] = []
        self.is_held: Callable[[Effect], bool] = _never

    def _obey(self, tell: Tell) -> None:
        self.sent.append(tell)
        super()._obey(tell)

    def _carry_out_one(self, effect: Effect) -> None:
        if self.is_held(effect):
            return
        if isinstance(effect, Read):
            self.reads.append(effect)
        elif isinstance(effect, Recorded):
            self.recorded.append(effect)
        elif isinstance(effect, Measured):
            self.measured.append(effect)
        super()._carry_out_one(effect)


def _never(_: Effect) -> bool:
    return False


class Play:
    """The commands of `tests/scenarios`, played one by one; what came of the last `do` is compared."""

    def __init__(self, *commands: str) -> None:
        """Play these; their output is not kept."""
        self.theatre = Stage()
        self.do(*commands)

    def do(self, *commands: str) -> list[str]:
        """Play further commands; every line of what came of them."""
        self.theatre.output.clear()
        self.theatre.sent.clear()
        self.theatre.reads.clear()
        self.theatre.recorded.clear()
        self.theatre.measured.clear()
        for command in commands:
            obey(self.theatre, command)
        return [line.strip() for line in self.theatre.output]

    def data(self, path: str) -> str | None:
        """What a znode holds; None where it is absent."""
        node = self.theatre.zookeeper.nodes.get(path)
        return None if node is None else node.data.decode()

    def seen(self, path: str) -> Fact:
        """A znode as somebody sees it who reads it now."""
        address, node = catalog.address_of(path), self.theatre.zookeeper.nodes[path]
        assert address is not None, path
        return present(address, catalog.decode(address, node.data), node.stat())

    def state(self) -> ClusterState:
        """What all znodes say together."""
        state = ClusterState()
        state.apply_all(
            self.seen(path) for path in self.theatre.zookeeper.nodes if catalog.address_of(path) is not None
        )
        return state

    def figures(self) -> dict[str, float]:
        """The gauges of the controller."""
        assert self.theatre.machine is not None
        return self.theatre.machine.figures()


def cluster(*more: str, topics: tuple[str, ...] = ("topic orders 0=1,2",), brokers: str = "1,2,3,4") -> Play:
    """Four brokers, one topic on the first two of them, and a controller that has just been elected."""
    return Play(f"brokers {brokers}", *topics, "elect", *more)


def index(lines: list[str], *words: str) -> int:
    """Where the first line with all of these words is."""
    return next(i for i, line in enumerate(lines) if all(word in line for word in words))


def some(lines: list[str], *words: str) -> list[str]:
    """The lines with all of these words."""
    return [line for line in lines if all(word in line for word in words)]
