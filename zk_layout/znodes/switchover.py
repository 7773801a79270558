"""Which replica should replace the leader?

Our own znode `/kafka_zk_controller/switchover`, ephemeral: it lives as long as the command `switchover`, or a leader
that stops, waits for the switchover.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from zk_layout.bounds import Broker
from zk_layout.codec import encode_version_1, json_decoder


class SwitchoverAddress(Struct, frozen=True, gc=False):
    """The request that a certain replica lead."""

    path: ClassVar[str] = "/kafka_zk_controller/switchover"


class Switchover(Struct, frozen=True):
    """The replica that should lead, who requested it, and when.

    Units:
        `at_ms` is in milliseconds since 1970.
    """

    to: Broker
    by: str
    at_ms: int


decode = json_decoder(Switchover)
"""The replica that should lead."""


def encode(switchover: Switchover) -> bytes:
    """The replica that should lead.

    >>> encode(Switchover(902, "ann@host", 1700000000000))
    b'{"version":1,"to":902,"by":"ann@host","at_ms":1700000000000}'
    """
    return encode_version_1(switchover)
