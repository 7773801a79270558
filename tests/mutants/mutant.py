"""What is a mistake that tests must notice?"""

from __future__ import annotations

from msgspec import Struct


class Mutant(Struct, frozen=True):
    """One mistake: a plausible change in one place, which still runs.

    Shape:
        `name` says what the controller does then. `old` occurs once in the file at `path`. Each of `tests`, files or
        tests of pytest, is meant to notice by itself. `unseen` says why no simulated world is expected to notice;
        it is mostly empty, and worlds must notice the mistake.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    unseen: str = ""

    def applied_to(self, source: str) -> str:
        """The source with the mistake in it."""
        return source.replace(self.old, self.new)


def unit(name: str) -> str:
    """The tests of something in the core."""
    return f"tests/unit/core/test_{name}.py"


def trap(name: str) -> str:
    """The traps of one kind."""
    return f"tests/unit/traps/test_{name}.py"


def story(name: str) -> str:
    """One scenario."""
    return f"tests/scenarios/test_scenarios.py::test_the_story_goes_as_written[{name}]"


def law(name: str) -> str:
    """The properties of something."""
    return f"tests/properties/test_{name}.py"


def zk(name: str) -> str:
    """The tests of a module that uses ZooKeeper, on the simulated one."""
    return f"tests/unit/zk/test_{name}.py"


def reading(name: str) -> str:
    """One test of the reader, on the simulated ZooKeeper."""
    return f"tests/conformance/test_zookeeper_adapter_reading.py::test_{name}[simulated]"
