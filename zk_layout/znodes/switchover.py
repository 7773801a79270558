"""Which replica should replace the leader?

Our own znode `/kafka_zk_controller/switchover`, ephemeral: it lives as long as the command waits for the switchover.
"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.bounds import Broker
from zk_layout.codec import decode_json, encode_json, json_decoder


class SwitchoverAddress(Struct, frozen=True, gc=False):
    """The request that a certain replica lead."""

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return "/kafka_zk_controller/switchover"


class Switchover(Struct, frozen=True):
    """The replica that should lead, who requested it, and when.

    Units:
        `at_ms` is in milliseconds since 1970.
    """

    to: Broker
    by: str
    at_ms: int


_decoder = json_decoder(Switchover)


def decode(data: bytes) -> Switchover:
    """The replica that should lead.

    Raises:
        Undecodable: not this znode's JSON.
    """
    return decode_json(_decoder, data)


def encode(switchover: Switchover) -> bytes:
    """The replica that should lead.

    >>> encode(Switchover(902, "ann@host", 1700000000000))
    b'{"version":1,"to":902,"by":"ann@host","at_ms":1700000000000}'
    """
    return encode_json({"version": 1, "to": switchover.to, "by": switchover.by, "at_ms": switchover.at_ms})
