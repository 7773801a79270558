"""What does ZooKeeper let this process do with a znode? Read from its ACL, without trying.

An ACL grants this process what it grants to anyone and to its own ids. It may also grant rights to our address as the
server sees it, or to an id that the server has shortened: only the server knows those.

Source: zookeeper.jute (GetACLRequest, GetACLResponse); ZooDefs.Perms and PrepRequestProcessor.checkACL of ZooKeeper.
"""

from __future__ import annotations

import struct
from enum import IntFlag
from typing import ClassVar

from msgspec import Struct

from controller.zk import protocol
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from controller.zk.login import Identity, identity_of

_int = struct.Struct(">i")
_NO_PERMISSION = -102


class Right(IntFlag):
    """ZooKeeper's permissions; creating and deleting concern a znode's children."""

    NONE = 0
    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16


class Granted(Struct, frozen=True):
    """What one znode's ACL grants.

    Shape:
        `surely` has our rights, `perhaps` those of addresses and ids that may be ours. `others` names the other ids
        with rights, `anyone` has the rights of everyone.
    """

    surely: Right
    perhaps: Right = Right.NONE
    others: tuple[str, ...] = ()
    anyone: Right = Right.NONE


class GetAcl(Struct, frozen=True):
    """Read a znode's ACL."""

    type: ClassVar[int] = 6
    path: str
    identity: Identity = Identity()

    def serialize(self) -> bytes:
        """The path."""
        return protocol.text(self.path)

    def deserialize(self, buffer: bytes, offset: int) -> Granted:
        """Our part of the ACL; the stat behind it is ignored."""
        surely = perhaps = anyone = Right.NONE
        others = []
        (count,) = _int.unpack_from(buffer, offset)
        offset += 4
        for _ in range(count):
            rights = Right(_int.unpack_from(buffer, offset)[0] & 31)
            scheme, offset = _text(buffer, offset + 4)
            name, offset = _text(buffer, offset)
            if (scheme, name) == ("world", "anyone"):
                anyone |= rights
            elif self.identity.is_one_of(scheme, name):
                surely |= rights
            else:
                # A digest must not be shown.
                others.append(f"{scheme}:{name.partition(':')[0] if scheme == 'digest' else name}")
                perhaps |= rights if scheme in ("ip", *self.identity.schemes) else Right.NONE
        return Granted(surely | anyone, perhaps, tuple(others), anyone)


def _text(buffer: bytes, offset: int) -> tuple[str, int]:
    end = offset + 4 + max(_int.unpack_from(buffer, offset)[0], 0)
    return buffer[offset + 4 : end].decode(errors="replace"), end


async def granted(bridge: Bridge, path: str, identity: Identity | None = None) -> Granted | None:
    """What we may do with a znode; None if it does not exist. An ACL that we may not read grants nothing known.

    Raises:
        SessionEnded: the session has ended.
        Refused: ZooKeeper answers with an unexpected error.
    """
    reply = await bridge.read(GetAcl(bridge.full(path), identity or identity_of(bridge.settings.security)))
    if reply.code == protocol.NO_NODE:
        return None
    if reply.code == _NO_PERMISSION:
        return Granted(Right.NONE, others=("an id that ZooKeeper does not show",))
    if reply.code != protocol.OK:
        raise Refused(path, reply.code)
    found: Granted = reply.value
    return found
