"""How are the findings packed? As one archive that only its owner can read, every text of which was scrubbed."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

_ONLY_FOR_THE_OWNER: Final = 0o600
MOST_BYTES: Final = 8 * 1024 * 1024
"""Longest part; of a longer one the beginning is left out."""


class Part(Struct, frozen=True):
    """One file of the bundle, and what it is; `failure` says why there is nothing, or not all."""

    name: str
    what: str
    text: str = ""
    failure: str = ""


def pack(out: Path, folder: str, parts: list[Part], scrub: Callable[[str], str]) -> None:
    """Write the archive, which must not exist.

    Raises:
        OSError: it cannot be written; then there is none.
    """
    descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_FOR_THE_OWNER)
    try:
        with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            _add(archive, f"{folder}/README.txt", scrub(_contents(parts)))
            for part in parts:
                if part.text:
                    _add(archive, f"{folder}/{part.name}", scrub(part.text))
    except OSError:
        out.unlink(missing_ok=True)
        raise


def _contents(parts: list[Part]) -> str:
    lines = [
        "What `kafka-zk-controller diagnose` collected. Passwords, keys and login modules are replaced by [hidden];",
        "names of hosts, topics, users and brokers are not.",
        "",
    ]
    lines += [f"{part.name:<28} {part.what}{f': {part.failure}' if part.failure else ''}" for part in parts]
    return "\n".join([*lines, ""])


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")[-MOST_BYTES:]
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), _ONLY_FOR_THE_OWNER, int(time.time())
    archive.addfile(entry, io.BytesIO(data))
