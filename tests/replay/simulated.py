"""How does a simulated world become a log of ZooKeeper's, so that the replay can read what our controllers wrote?

`python -m tests.replay.simulated 100` audits the ledgers of a hundred worlds, with the first seed as a second argument.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.replay.any_files import Rows, Tables, tables_of
from tests.simulation.world import World
from tests.simulation.zookeeper import CheckVersion, MakeNode, Operation, RemoveNode, SetData, Transaction
from tests.unit.storage import zk_files as zk
from zk_layout.ids import SessionId
from zk_layout.storage import operations as ops

BEGUN_MS = 1_700_000_000_000
_FAILED = -110


class Logging:
    """Writes down a world's transactions from its first on, as a server of its ensemble would."""

    def __init__(self, world: World) -> None:
        """To be attached before the world runs."""
        self.attached: dict[SessionId, object] = {}
        self._world = world
        self._versions: dict[str, int] = {}
        self._bodies: list[bytes] = []
        self._last = 0
        made: dict[int, list[Operation]] = {}
        for path, node in world.zookeeper.nodes.items():
            if path != "/":
                made.setdefault(node.czxid, []).append(MakeNode(path, node.data))
        for zxid, operations in sorted(made.items()):
            self._add(zxid, 0, tuple(operations))
        world.zookeeper.learners.append(self)  # type: ignore[arg-type]  # it serves no session

    def learn(self, transaction: Transaction) -> None:
        """Take the next transaction."""
        if transaction.ended is None:
            self._add(transaction.zxid, transaction.session, transaction.operations)
            return
        paths = [operation.path for operation in transaction.operations]
        self._fill(transaction.zxid)
        head = zk.header(transaction.zxid, ops.CLOSE_SESSION, transaction.ended, 0, self._now_ms)
        self._bodies.append(head + zk.closed(*paths))

    def write(self, path: Path) -> None:
        """Write all of it to a log."""
        path.write_bytes(zk.log(*self._bodies))

    @property
    def _now_ms(self) -> int:
        return BEGUN_MS + round(self._world.clock.now * 1000)

    def _add(self, zxid: int, session: int, operations: tuple[Operation, ...]) -> None:
        self._fill(zxid)
        if not operations:
            self._bodies.append(zk.header(zxid, ops.ERROR, session, 1, self._now_ms) + zk.number(_FAILED))
            return
        parts = [self._part(operation) for operation in operations]
        self._bodies.append(zk.header(zxid, ops.MULTI, session, 1, self._now_ms) + zk.multi(*parts))

    def _fill(self, zxid: int) -> None:
        """What the world did before its ensemble is there leaves no hole."""
        before, self._last = self._last, zxid
        for missing in range(before + 1, zxid):
            self._bodies.append(zk.header(missing, ops.ERROR, 0, 1, self._now_ms) + zk.number(_FAILED))

    def _part(self, operation: Operation) -> tuple[int, bytes]:
        path = operation.path
        match operation:
            case MakeNode():
                self._versions[path] = 0
                return ops.CREATE, zk.create(path, operation.data, ephemeral=operation.is_ephemeral)
            case SetData():
                self._versions[path] += 1
                return ops.SET_DATA, zk.set_data(path, operation.data, self._versions[path])
            case RemoveNode():
                return ops.DELETE, zk.delete(path)
            case CheckVersion():
                return ops.CHECK, zk.check(path, operation.version + 1)


def logged(seed: int, home: Path) -> Path:
    """The log of one seed's world, from its beginning to its end."""
    world = World(seed)
    logging = Logging(world)
    world.run()
    path = home / "log.1"
    logging.write(path)
    return path


def tables_of_world(seed: int, split_bytes: int = 1 << 40) -> Tables:
    """All tables of one world."""
    with TemporaryDirectory() as home:
        return tables_of([logged(seed, Path(home))], split_bytes)


def lies(tables: Tables) -> Rows:
    """What the audit says of the ledger."""
    return [row for row in tables["audit"] if row["rule"] == "ledger"]


def audited(first: int, count: int) -> Iterator[tuple[int, Tables]]:
    """The tables of some worlds, by seed."""
    for seed in range(first, first + count):
        yield seed, tables_of_world(seed)


def _main(count: int, first: int = 0) -> None:
    outcomes: Counter[tuple[str | None, str | None]] = Counter()
    wrong = 0
    for seed, tables in audited(first, count):
        outcomes.update((row["outcome"], row["log_outcome"]) for row in tables["requested_moves"])
        for row in lies(tables):
            wrong += 1
            sys.stdout.write(f"seed {seed} at {row['zxid']:#x}: {row['verdict']}: {row['why']}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{count} worlds, {outcomes.total()} requested moves, {wrong} findings\n")
    for (said, shown), many in outcomes.most_common():
        sys.stdout.write(f"  {many:6} {said} / {shown}\n")


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
