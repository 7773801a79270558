"""Should moves of partitions wait until an operator lets them go on?

Our own znode `/kafka_zk_controller/paused`. As long as it exists, with any content, a leader of ours begins no move and
moves no leader for balance, and no replica carries out a switchover that an operator asks for. Brokers, and their own
controllers, ignore it.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from zk_layout.codec import encode_version_1, json_decoder


class PauseAddress(Struct, frozen=True, gc=False):
    """The request that no move begin."""

    path: ClassVar[str] = "/kafka_zk_controller/paused"


class Pause(Struct, frozen=True):
    """Who asked for it, when and why, for people to read.

    Units:
        `at_ms` is in milliseconds since 1970; 0 if unknown.
    """

    by: str
    at_ms: int
    reason: str = ""


BY_HAND = Pause("an unknown user", 0, f"{PauseAddress.path} cannot be read, or was not written by `pause`")
"""What is known of a pause whose znode says nothing: it counts."""

decode = json_decoder(Pause)
"""Who paused moves. The pause counts even if this is not the znode's JSON."""


def encode(pause: Pause) -> bytes:
    """Who paused moves.

    >>> encode(Pause("ann@host", 1700000000000, "disks are replaced"))
    b'{"version":1,"by":"ann@host","at_ms":1700000000000,"reason":"disks are replaced"}'
    """
    return encode_version_1(pause)
