"""Which transactions only set the data of one znode, and to what? Found in many at once.

Almost all transactions of a busy cluster do that: of a broker alone, or of a controller behind a check of its epoch.
Anything that does not have exactly this form is left to `operations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
from numpy.typing import NDArray

from zk_layout.storage.operations import CHECK, HEADER_SIZE, MULTI, SET_DATA

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
# The distinct values, and for each transaction the number of its own.
Repeated = tuple[list[bytes], Ints]

LARGEST = 4096  # reading a larger one takes far longer than decoding it
_SESSION_AT, _ZXID_AT, _TIME_AT, KIND_AT = 0, 12, 20, 28
_NUMBER, _LONG = 4, 8
_MARGIN = bytes(_LONG)  # so that no access goes beyond the end


class SetData(NamedTuple):
    """Transactions that set data, in order.

    Shape:
        `places` are their indexes among all given ones. `version` is the new one, `part` 1 behind a check,
        else 0. `checked` is the checked path, empty if there was none, and `checked_version` as it is written.
        Decoding the data costs more than all the rest, and is only done on demand.
    """

    places: Ints
    session: Ints
    zxid: Ints
    time_ms: Ints
    part: Ints
    version: Ints
    path: Repeated
    checked: Repeated
    checked_version: Ints
    data_at: Ints
    data_end: Ints
    written: _Written

    @property
    def size(self) -> Ints:
        """The size of each one's data."""
        return self.data_end - self.data_at

    def data(self) -> Repeated:
        """The data that each sets."""
        return self.written.texts(self.data_at, self.data_end)

    def at(self, which: Flags) -> SetData:
        """A selection of them."""
        if which.all():
            return self

        def kept(column: Any) -> Any:
            if isinstance(column, _Written):
                return column
            return column[which] if isinstance(column, np.ndarray) else (column[0], column[1][which])

        return SetData(*map(kept, self))


def set_data_of(bodies: Sequence[bytes]) -> SetData:
    """The transactions of at most LARGEST bytes that set data, with neither path nor data empty."""
    lengths = np.fromiter(map(len, bodies), np.int64, len(bodies))
    looked_at = np.flatnonzero(lengths <= LARGEST)
    written = _Written([bodies[place] for place in looked_at.tolist()], lengths[looked_at])
    kind = written.number(written.starts + KIND_AT)
    after_header = written.starts + HEADER_SIZE
    (alone,) = np.nonzero(kind == SET_DATA)
    (several,) = np.nonzero(kind == MULTI)
    checks, is_checked = _behind_check(written, after_header[several], written.ends[several])
    several = several[is_checked]
    places = np.concatenate([alone, several])
    nowhere = np.zeros((3, len(alone)), np.int64)
    check_at, check_end, checked_version = np.concatenate([nowhere, checks[:3]], axis=1)
    at = np.concatenate([after_header[alone], checks[3]])
    limit = np.concatenate([written.ends[alone], checks[4]])
    path_end, data_at, data_end, is_whole = _set(written, at, limit)
    order = np.nonzero(is_whole)[0]
    order = order[np.argsort(places[order], kind="stable")]
    places, at, check_at, check_end = places[order], at[order], check_at[order], check_end[order]
    path_end, data_at, data_end = path_end[order], data_at[order], data_end[order]
    starts = written.starts[places]
    return SetData(
        places=looked_at[places],
        session=written.long(starts + _SESSION_AT),
        zxid=written.long(starts + _ZXID_AT),
        time_ms=written.long(starts + _TIME_AT),
        part=(check_end > 0).astype(np.int64),
        version=written.number(data_end),
        path=written.texts(at + _NUMBER, path_end),
        checked=written.texts(np.where(check_end > 0, check_at, starts), np.where(check_end > 0, check_end, starts)),
        checked_version=checked_version[order],
        data_at=data_at,
        data_end=data_end,
        written=written,
    )


class _Written:
    """Concatenated transactions, and where each starts and ends."""

    def __init__(self, bodies: Sequence[bytes], lengths: Ints) -> None:
        self._buffer = b"".join((*bodies, _MARGIN))
        self._bytes = np.frombuffer(self._buffer, np.uint8)
        self.ends: Ints = np.cumsum(lengths)
        self.starts: Ints = self.ends - lengths

    def number(self, at: Ints) -> Ints:
        return self._at(at, _NUMBER)

    def long(self, at: Ints) -> Ints:
        return self._at(at, _LONG)

    def texts(self, starts: Ints, ends: Ints) -> Repeated:
        """The texts between each start and its end; the next start does not come before that end."""
        if not len(starts):
            return [], starts
        # Every second value is wanted; the others lie between two wanted ones.
        edges = np.empty(2 * len(starts) + 1, np.int32)
        edges[0], edges[1::2], edges[2::2] = 0, starts, ends
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(self._buffer)]
        all_values = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)
        wanted: Any = all_values.take(pa.array(np.arange(1, len(edges) - 1, 2))).dictionary_encode()
        return wanted.dictionary.to_pylist(), wanted.indices.to_numpy().astype(np.int64)

    def _at(self, at: Ints, size: int) -> Ints:
        places = np.clip(at, 0, len(self._bytes) - size)
        picked: Any = self._bytes[places[:, None] + np.arange(size)].view(f">i{size}")
        numbers: Ints = picked.ravel().astype(np.int64)
        return numbers


def _behind_check(written: _Written, at: Ints, limit: Ints) -> tuple[Ints, Flags]:
    """The multis of two parts, of which the first checks and the second sets data.

    Where the checked path starts and ends, its version, and where the second part starts and ends.
    """
    first = at + _NUMBER
    length = written.number(first + _NUMBER)
    path_at = first + 3 * _NUMBER
    path_end = path_at + written.number(path_at - _NUMBER)
    second = first + 2 * _NUMBER + length
    second_at = second + 2 * _NUMBER
    second_end = second_at + written.number(second + _NUMBER)
    is_one = (
        (written.number(at) == 2) & (written.number(first) == CHECK) & (written.number(second) == SET_DATA)
        & (path_end > path_at) & (path_end + _NUMBER <= second) & (second_end <= limit)
    )  # fmt: skip
    found = np.stack([path_at, path_end, written.number(path_end), second_at, second_end])
    return found[:, is_one], is_one


def _set(written: _Written, at: Ints, limit: Ints) -> tuple[Ints, Ints, Ints, Flags]:
    """Where the path ends, where the data starts and ends, and whether neither is empty or too long."""
    path_at = at + _NUMBER
    path_end = path_at + written.number(at)
    data_at = path_end + _NUMBER
    data_end = data_at + written.number(path_end)
    is_whole = (path_end > path_at) & (data_at <= limit) & (data_end > data_at) & (data_end + _NUMBER <= limit)
    return path_end, data_at, data_end, is_whole
