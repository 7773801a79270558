"""What do real brokers and native controllers write into znodes? Captures from `tests/fixtures`."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from struct import unpack_from

from zk_layout import catalog
from zk_layout.storage.operations import Row, append_rows

FIXTURES = Path(__file__).parents[1] / "fixtures" / "native"
_LOG_HEADER, _RECORD_HEADER = 16, 12
_MOST_OF_A_KIND = 40


@cache
def captured() -> dict[str, tuple[bytes, ...]]:
    """By kind of znode, some captured values, each once."""
    found: dict[str, dict[bytes, None]] = {}
    for file in sorted(FIXTURES.glob("*/log.*.gz")):
        for path, data in _writes(gzip.decompress(file.read_bytes())):
            address = catalog.address_of(path.removeprefix("/kafka"))
            if address is not None and data:
                values = found.setdefault(catalog.kind_of(address), {})
                if len(values) < _MOST_OF_A_KIND:
                    values[data] = None
    return {kind: tuple(values) for kind, values in sorted(found.items())}


def _writes(log: bytes) -> list[tuple[str, bytes]]:
    rows: list[Row] = []
    at = _LOG_HEADER
    while at + _RECORD_HEADER <= len(log):
        _, size = unpack_from(">Qi", log, at)
        if size <= 0:
            break
        append_rows(log[at + _RECORD_HEADER : at + _RECORD_HEADER + size], rows)
        at += _RECORD_HEADER + size + 1
    return [(path, data) for *_, path, data, _version, _owner, _acl, _error in rows if path and data]
