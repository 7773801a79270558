"""Where do a client's results under our controller differ from those under the native one?"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tests.clients.running import UNSUPPORTED

EQUAL, UNSAID = "=", ""
KNOWN = Path(__file__).with_name("known.toml")


class Cell(Struct, frozen=True):
    """One operation of one client through one kind of bootstrap address, under both controllers."""

    client: str
    operation: str
    bootstrap: str
    ours: Any = None
    native: Any = None

    @property
    def is_equal(self) -> bool:
        """Whether both results are the same."""
        return bool(self.ours == self.native)

    @property
    def is_supported(self) -> bool:
        """Whether the client has such an operation."""
        return bool(self.ours != UNSUPPORTED or self.native != UNSUPPORTED)

    @property
    def difference(self) -> str:
        """The difference, as one line.

        >>> Cell("c", "o", "brokers", {"error": "X"}, {"accepted": True}).difference
        'ours: {"error":"X"}; native: {"accepted":true}'
        """
        return f"ours: {as_text(self.ours)}; native: {as_text(self.native)}"


class Known(Struct, frozen=True, forbid_unknown_fields=True):
    """A difference with a reason.

    Without a bootstrap it concerns both kinds. One that is not in every run is never stale.
    """

    clients: tuple[str, ...]
    operations: tuple[str, ...]
    reason: str
    bootstrap: str | None = None
    is_frequent: bool = True

    def explains(self, cell: Cell) -> bool:
        """Whether it is about this cell."""
        return (
            cell.client in self.clients
            and cell.operation in self.operations
            and self.bootstrap in (None, cell.bootstrap)
        )


class Remark(Struct, frozen=True, forbid_unknown_fields=True):
    """A remark on a difference in tools' output, and whether it hurts."""

    calls: tuple[str, ...]
    remark: str


class KnownFile(Struct, frozen=True, forbid_unknown_fields=True):
    """All known differences."""

    difference: tuple[Known, ...] = ()
    tool: tuple[Remark, ...] = ()

    def remark_on(self, call: str) -> str | None:
        """The remark on one call of a tool."""
        return next((tool.remark for tool in self.tool if call in tool.calls), None)


class Verdict(Struct, frozen=True):
    """The verdict on all cells.

    Shape:
        `explained` has each cell that differs with the number of its reason, counted from 1. A reason is stale if
        its cells were compared, and none of them differs.
    """

    explained: Sequence[tuple[Cell, int]]
    unexplained: Sequence[Cell]
    stale: Sequence[Known]


def judge(cells: Iterable[Cell], known: Sequence[Known]) -> Verdict:
    """Find differences with a reason, without one, and reasons without a difference."""
    explained, unexplained = [], []
    looked_at, used = set(), set()
    for cell in cells:
        numbers = [number for number, reason in enumerate(known, 1) if reason.explains(cell)]
        looked_at.update(numbers)
        if cell.is_equal:
            continue
        if numbers:
            explained.append((cell, numbers[0]))
            used.add(numbers[0])
        else:
            unexplained.append(cell)
    stale = [known[number - 1] for number in sorted(looked_at - used)]
    return Verdict(explained, unexplained, [reason for reason in stale if reason.is_frequent])


def read_known(path: Path = KNOWN) -> KnownFile:
    """The known differences."""
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), KnownFile)


def as_text(value: Any) -> str:
    """Compact, with a stable order of keys."""
    return msgspec.json.encode(value, order="sorted").decode()


def cells(
    ours: Mapping[tuple[str, str], Mapping[str, Any]], native: Mapping[tuple[str, str], Mapping[str, Any]]
) -> list[Cell]:
    """All cells, from each (client, bootstrap)'s results of each operation."""
    return [
        Cell(client, operation, bootstrap, result, native[client, bootstrap].get(operation))
        for (client, bootstrap), results in ours.items()
        for operation, result in results.items()
    ]
