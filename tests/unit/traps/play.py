"""How does a test of a trap play a scenario and look at what came of it?"""

from __future__ import annotations

from controller.core.effects import Tell
from tests.scenarios.commands import obey
from tests.scenarios.theatre import Theatre


class Stage(Theatre):
    """Keeps whatever brokers are told, as it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Tell] = []

    def _obey(self, tell: Tell) -> None:
        self.told.append(tell)
        super()._obey(tell)


class Play:
    """The commands of `tests/scenarios`, played one by one; what came of the last `do` is compared."""

    def __init__(self, *commands: str) -> None:
        """Play these; their output is not kept."""
        self.theatre = Stage()
        self.do(*commands)

    def do(self, *commands: str) -> list[str]:
        """Play further commands; every line of what came of them."""
        self.theatre.output.clear()
        self.theatre.told.clear()
        for command in commands:
            obey(self.theatre, command)
        return [line.strip() for line in self.theatre.output]

    def data(self, path: str) -> str | None:
        """What a znode holds; None where it is absent."""
        node = self.theatre.zookeeper.nodes.get(path)
        return None if node is None else node.data.decode()


def cluster(*more: str, topics: tuple[str, ...] = ("topic orders 0=1,2",), brokers: str = "1,2,3,4") -> Play:
    """Four brokers, one topic on the first two of them, and a controller that has just been elected."""
    return Play(f"brokers {brokers}", *topics, "elect", *more)


def index(lines: list[str], *words: str) -> int:
    """Where the first line with all of these words is."""
    return next(i for i, line in enumerate(lines) if all(word in line for word in words))


def some(lines: list[str], *words: str) -> list[str]:
    """The lines with all of these words."""
    return [line for line in lines if all(word in line for word in words)]
