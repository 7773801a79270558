"""What was read of one znode, and which of two readings is newer?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from zk_layout.codec import Malformed
from zk_layout.ids import SessionId, ZnodeVersion, Zxid

if TYPE_CHECKING:
    from zk_layout.catalog import Address, Value


class Stat(Struct, frozen=True, gc=False):
    """When a znode was created and last changed, how often, and which session owns it (0: persistent)."""

    czxid: Zxid
    mzxid: Zxid
    version: ZnodeVersion
    owner: SessionId = SessionId(0)


class Fact(Struct, frozen=True):
    """One znode, or its absence, as of one zxid.

    `stat` is None for an absent znode, whose `value` is then None too. A present znode without data has the
    value of its family (None if the family carries no data).

    Shape:
        `as_of` is the znode's mzxid when present, the zxid of the answer that said "no such node" when absent.
    """

    address: Address
    value: Value | Malformed | None
    stat: Stat | None
    as_of: Zxid

    @property
    def is_present(self) -> bool:
        """Whether the znode existed."""
        return self.stat is not None


def present(address: Address, value: Value | Malformed | None, stat: Stat) -> Fact:
    """A znode that exists."""
    return Fact(address, value, stat, stat.mzxid)


def absent(address: Address, as_of: Zxid) -> Fact:
    """A znode that did not exist when the server answered at `as_of`."""
    return Fact(address, None, None, as_of)


def is_newer(fact: Fact, held_as_of: Zxid, *, is_held_present: bool = True) -> bool:
    """Whether `fact` is newer than the held one; an equal zxid repeats it.

    A znode that was deleted and created again has a higher mzxid than any reading of its former life, so
    comparing zxids is enough in any order of arrival. Only an absence may carry the zxid of the very creation
    that its read has just missed: then the present znode counts.
    """
    if fact.as_of == held_as_of:
        return fact.is_present and not is_held_present
    return fact.as_of > held_as_of
