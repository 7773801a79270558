"""What does a file named on the command line contain? It may be a pipe, which can be read only once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path


class InputFile:
    """Reads a file on first use, and keeps its content."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    @property
    def name(self) -> str:
        """The file's name, without the directory."""
        return self._path.name

    def read_bytes(self) -> bytes:
        """The whole content.

        Raises:
            OSError: it cannot be read.
        """
        return self._content

    @cached_property
    def _content(self) -> bytes:
        return self._path.read_bytes()


File = Path | InputFile
