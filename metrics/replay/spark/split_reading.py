"""How does one of Spark's tasks read its split?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
from pyspark.sql.datasource import InputPartition

from metrics.replay.events.kafka_events import Meaning
from metrics.replay.events.schemas import damage_batch, others_batch, states_batch, transactions_batch
from metrics.replay.events.splits import Split, meaning_of, rows_of
from metrics.replay.files.state import read_pieces
from metrics.replay.spark.pushdown import Bounds
from zk_layout.storage.damage import Damage
from zk_layout.storage.operations import Row

ROWS_A_BATCH = 50_000


class OneSplit(InputPartition):
    """A run of transactions of the logs, or the snapshot before them."""

    def __init__(self, split: Split) -> None:
        super().__init__(split.number)
        self.split = split


def read_split(
    split: Split, table: str, chroot: str = "", bounds: Bounds | None = None, with_data: bool = True
) -> Iterator[pa.RecordBatch]:
    """The batches of one split for a table of logs."""
    damage: list[Damage] = []
    wanted = bounds or Bounds()
    if table == "transactions":
        for path, pieces in groupby(split.pieces, key=lambda piece: piece.file):
            for rows in read_pieces([*pieces], damage):
                yield from _transactions(wanted.kept(rows), path, with_data)
        return
    meaning = meaning_of(split, chroot)
    for rows in rows_of(split, damage):
        if table == "events":
            meaning.add(rows)
            yield from _taken(meaning)
    if table == "damage":
        yield from damage_batches(damage)


def damage_batches(damage: Sequence[Damage]) -> Iterator[pa.RecordBatch]:
    """Missing transactions as rows; no batch if there are none."""
    if damage:
        yield damage_batch(damage)


def _taken(meaning: Meaning) -> Iterator[pa.RecordBatch]:
    if meaning.states:
        yield states_batch(meaning.states)
        meaning.states.clear()
    if meaning.others:
        yield others_batch(meaning.others)
        meaning.others.clear()


def _transactions(rows: list[Row], file: str, with_data: bool) -> Iterator[pa.RecordBatch]:
    if not with_data:
        rows = [(*row[:8], None, *row[9:]) for row in rows]
    for start in range(0, len(rows), ROWS_A_BATCH):
        yield transactions_batch(rows[start : start + ROWS_A_BATCH], file)
