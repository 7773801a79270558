"""What could not be read of ZooKeeper's files, and where?"""

from __future__ import annotations

from msgspec import Struct


class Damage(Struct, frozen=True):
    """One place that is not as ZooKeeper writes it. Everything around it was read.

    Units:
        `offset` counts bytes from the file's start, after decompression.
    """

    file: str
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.file} at byte {self.offset}: {self.what}"


def not_read(file: str, wrong: OSError, offset: int = 0) -> Damage:
    """What the system does not let us read of a file, from a place on."""
    return Damage(file, offset, f"cannot be read: {wrong.strerror or wrong}")


class Unreadable(ValueError):
    """Bytes whose checksum may be right but which are no record that ZooKeeper knows."""
