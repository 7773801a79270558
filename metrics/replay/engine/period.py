"""Which period of the history counts?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.events.schemas import TIME


class Period(Struct, frozen=True):
    """The period in which writes count."""

    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, time_ms: int) -> bool:
        """Whether a time lies within it."""
        return (self.since_ms is None or self.since_ms <= time_ms) and (
            self.until_ms is None or time_ms <= self.until_ms
        )

    def of(self, column: str) -> Any:
        """Whether a column's time lies within it."""
        is_in: Any = pc.field(column).is_valid()
        for limit_ms, within in ((self.since_ms, pc.greater_equal), (self.until_ms, pc.less_equal)):
            if limit_ms is not None:
                is_in &= within(pc.field(column), pa.scalar(limit_ms, pa.timestamp("ms", tz="UTC")).cast(TIME))
        return is_in
