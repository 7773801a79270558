"""Does the leader still live? A standby that doubts it asks here, and the leader answers by a write.

Our own znode `/kafka_zk_controller/challenge`, ephemeral: it lives as long as the standby waits for the answer. Only
its version counts: 0 until the leader has answered. The leader answers without having read it.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct

from zk_layout.bounds import Broker
from zk_layout.codec import encode_version_1, json_decoder
from zk_layout.ids import ZnodeVersion

UNANSWERED: Final = ZnodeVersion(0)
"""The version of a challenge that the leader has not answered."""


class ChallengeAddress(Struct, frozen=True, gc=False):
    """The challenge of the present leader."""

    path: ClassVar[str] = "/kafka_zk_controller/challenge"


class Challenge(Struct, frozen=True):
    """Which replica wrote it last, the challenger or the leader, and when. For people to read.

    Units:
        `at_ms` is in milliseconds since 1970.
    """

    by: Broker
    at_ms: int


decode = json_decoder(Challenge)
"""Who wrote it last."""


def encode(challenge: Challenge) -> bytes:
    """Who wrote it last.

    >>> encode(Challenge(902, 1700000000000))
    b'{"version":1,"by":902,"at_ms":1700000000000}'
    """
    return encode_version_1(challenge)
