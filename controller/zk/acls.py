"""Which ACL does a znode that we create get? The one Kafka would give it.

Source: Kafka's ZkData.defaultAcls and sensitivePath, the same from 2.4 to 3.9; ZooDefs.Ids. ZooKeeper replaces `auth`
by the creator's own ids.
"""

from __future__ import annotations

import struct
from typing import Final

from controller.zk.protocol import OPEN_TO_ALL, text
from zk_layout.watched import SENSITIVE

_ALL, _READ = 31, 1
_int = struct.Struct(">i")
_CREATOR: Final = _int.pack(_ALL) + text("auth") + text("")
_READERS: Final = _int.pack(_READ) + text("world") + text("anyone")
_CREATOR_ONLY: Final = _int.pack(1) + _CREATOR
_READABLE: Final = _int.pack(2) + _CREATOR + _READERS
_CONSUMERS: Final = "/consumers"
"""Old consumers wrote below it."""


def acl_of(path: str, *, is_protected: bool) -> bytes:
    """The ACL of a znode (its path without the chroot), as bytes of ZooKeeper's protocol.

    `is_protected` is zookeeper.set.acl.
    """
    if not is_protected or path == _CONSUMERS:
        return OPEN_TO_ALL
    return _CREATOR_ONLY if path.startswith(SENSITIVE) else _READABLE
