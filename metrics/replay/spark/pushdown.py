"""Which zxids, times and paths does a query want, so that the rest need not be read?"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from metrics.replay.files.state import END_OF_TIME
from zk_layout.storage.operations import Row


class Bounds(Struct, frozen=True):
    """Bounds for wanted rows; wider than the query where that is simpler."""

    first_zxid: int = 0
    last_zxid: int = END_OF_TIME
    first_ms: int = 0
    last_ms: int = END_OF_TIME
    path_prefix: str = ""

    @property
    def are_open(self) -> bool:
        """Whether all rows are wanted."""
        return self == Bounds()

    def excludes(self, first_zxid: int, last_zxid: int, first_ms: int, last_ms: int) -> bool:
        """Whether no row between these can be wanted."""
        return (
            last_zxid < self.first_zxid
            or first_zxid > self.last_zxid
            or last_ms < self.first_ms
            or first_ms > self.last_ms
        )

    def kept(self, rows: list[Row]) -> list[Row]:
        """The rows wanted."""
        if self.are_open:
            return rows
        return [
            row
            for row in rows
            if self.first_zxid <= row[0] <= self.last_zxid
            and self.first_ms <= row[1] <= self.last_ms
            and row[7].startswith(self.path_prefix)
        ]


def bounds_of(filters: Iterable[Filter]) -> Bounds:
    """The bounds that all these filters together set."""
    bounds = Bounds()
    for one in filters:
        bounds = _narrowed(bounds, one)
    return bounds


def _narrowed(bounds: Bounds, one: Filter) -> Bounds:
    match one:
        case StringStartsWith(attribute=("path",)) | EqualTo(attribute=("path",)):
            if len(one.value) > len(bounds.path_prefix):
                return structs.replace(bounds, path_prefix=one.value)
        case GreaterThan() | GreaterThanOrEqual():
            return _raised(bounds, one.attribute, one.value)
        case LessThan() | LessThanOrEqual():
            return _lowered(bounds, one.attribute, one.value)
        case EqualTo():
            return _lowered(_raised(bounds, one.attribute, one.value), one.attribute, one.value)
    return bounds


def _raised(bounds: Bounds, attribute: tuple[str, ...], value: Any) -> Bounds:
    if attribute == ("zxid",):
        return structs.replace(bounds, first_zxid=max(bounds.first_zxid, int(value)))
    if attribute == ("time",) and isinstance(value, datetime):
        return structs.replace(bounds, first_ms=max(bounds.first_ms, _ms(value)))
    return bounds


def _lowered(bounds: Bounds, attribute: tuple[str, ...], value: Any) -> Bounds:
    if attribute == ("zxid",):
        return structs.replace(bounds, last_zxid=min(bounds.last_zxid, int(value)))
    if attribute == ("time",) and isinstance(value, datetime):
        return structs.replace(bounds, last_ms=min(bounds.last_ms, _ms(value) + 1))
    return bounds


def _ms(value: datetime) -> int:
    # A time without a zone is in the session's, which is UTC here.
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
