"""What does a file say that was named on the command line? It may be a pipe, which can be read only once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path


class InputFile:
    """Reads a file when it is first asked for, and keeps what it said."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    @property
    def name(self) -> str:
        """Without the directory."""
        return self._path.name

    def read_bytes(self) -> bytes:
        """All of it.

        Raises:
            OSError: it cannot be read.
        """
        return self._content

    @cached_property
    def _content(self) -> bytes:
        return self._path.read_bytes()


File = Path | InputFile
