"""How are the parts of a diagnosis collected? One after the other, each in bounded time; a failure costs one part."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct, to_builtins

from controller.diagnosis.bundle import Part

WITHIN_S: Final = 60.0
TAIL_BYTES: Final = 2 * 1024 * 1024


class Wanted(Struct, frozen=True):
    """One part: its file name, what it is, and how it is found. A text is kept as it is; all else becomes JSON."""

    name: str
    what: str
    find: Callable[[], Awaitable[object]]


async def collect(wanted: Iterable[Wanted]) -> list[Part]:
    """All parts."""
    return [await _one(part) for part in wanted]


async def _one(wanted: Wanted) -> Part:
    try:
        async with asyncio.timeout(WITHIN_S):
            found = await wanted.find()
    except TimeoutError:
        return Part(wanted.name, wanted.what, failure=f"not found within {WITHIN_S:g} s")
    except Exception as error:  # a bundle without this part is better than none
        return Part(wanted.name, wanted.what, failure=f"{type(error).__name__}: {error}")
    return Part(wanted.name, wanted.what, found if isinstance(found, str) else as_json(found))


def as_json(found: object) -> str:
    """Readable JSON."""
    return json.dumps(to_builtins(found, str_keys=True), indent=2, ensure_ascii=False)


def tail(path: Path) -> str:
    """The last lines of a regular file, 2 MiB at most.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no regular file.
    """
    if not path.is_file():
        raise ValueError(f"{path} is no file")
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        found = file.read(TAIL_BYTES)
    text = found.decode("utf-8", "backslashreplace")
    return text if size <= TAIL_BYTES else text.partition("\n")[2]
