"""What could not be read of ZooKeeper's files, and where?"""

from __future__ import annotations

from msgspec import Struct


class Damage(Struct, frozen=True):
    """One place that ZooKeeper would not write so. Everything around it was read.

    Units:
        `offset` counts bytes from the file's start, after decompression.
    """

    file: str
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.file} at byte {self.offset}: {self.what}"


def not_read(file: str, wrong: OSError, offset: int = 0) -> Damage:
    """The part of a file, from a place on, that the system does not let us read."""
    return Damage(file, offset, f"cannot be read: {wrong.strerror or wrong}")


class Unreadable(ValueError):
    """Bytes that are no record of ZooKeeper's, even if their checksum is right."""
