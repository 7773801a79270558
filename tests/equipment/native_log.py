"""How is a log that Kafka's own controller left in ZooKeeper played again, for a process that observes to follow?"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, SetData, ZooKeeper
from zk_layout.ids import SessionId
from zk_layout.storage.operations import CLOSE_SESSION, CREATIONS, DELETE, SET_DATA, Row, is_session_owner
from zk_layout.storage.txnlog import Records, rows_of


class Written(NamedTuple):
    """One transaction of the log: when it was made, and what it changed below the chroot."""

    at_s: float
    rows: tuple[Row, ...]


def transactions(*logs: Path, chroot: str = "") -> Iterator[Written]:
    """The transactions of gzipped logs that changed something, in order."""
    rows: list[Row] = []
    for log in logs:
        records = Records(log.name)
        rows += rows_of(records.feed(gzip.decompress(log.read_bytes())), log.name, records.damage)
        assert not records.damage, records.damage
    for _, parts in groupby(rows, key=lambda row: row[0]):
        of_one = tuple(row for row in parts if _is_change(row, chroot))
        if of_one:
            yield Written(of_one[0][1] / 1000, of_one)


def _is_change(row: Row, chroot: str) -> bool:
    _, _, _, _, _, _, op, path, _, _, _, _, error = row
    is_write = op in CREATIONS or op in (DELETE, SET_DATA, CLOSE_SESSION)
    return error is None and is_write and path.startswith(chroot + "/")


class Played:
    """Writes transactions of a log into a simulated ZooKeeper, below no chroot."""

    def __init__(self, zookeeper: ZooKeeper, chroot: str = "") -> None:
        self._zookeeper = zookeeper
        self._session: SessionId = zookeeper.open_session()
        self._below = len(chroot)

    def write(self, written: Written) -> None:
        """Write one; a parent that this ZooKeeper has from the beginning is left as it is."""
        operations: list[Operation] = []
        for _, _, _, _, _, _, op, path, data, _, owner, _, _ in written.rows:
            own = path[self._below :]
            if op in CREATIONS:
                if own in self._zookeeper.nodes and not is_session_owner(owner):
                    operations.append(SetData(own, data or b""))
                else:
                    operations.append(MakeNode(own, data or b""))
            elif op == SET_DATA:
                operations.append(SetData(own, data or b""))
            elif own in self._zookeeper.nodes:
                operations.append(RemoveNode(own))  # also by the end of its session
        if operations:
            done = self._zookeeper.multi(self._session, operations)
            assert not done.errors, (done.errors, operations)
