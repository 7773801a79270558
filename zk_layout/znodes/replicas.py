"""Which replicas of this controller run, and in which state is each?

Our own ephemeral znodes `/kafka_zk_controller/replicas/<broker.id>`, each written by the replica itself, for people
and tools. No decision rests on them.
"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.codec import decode_json, encode_json, json_decoder
from zk_layout.ids import BrokerId

ROOT = "/kafka_zk_controller/replicas"


class ReplicaAddress(Struct, frozen=True, gc=False):
    """One replica's report about itself."""

    replica: BrokerId

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{ROOT}/{self.replica}"


class Replica(Struct, frozen=True):
    """The state of a replica.

    Shape:
        `phase` and `reason` are those of `/leader`, `http` is the address of its HTTP port, empty without one.

    Units:
        `since_ms`, when the phase began, is in milliseconds since 1970.
    """

    phase: str
    is_ready: bool
    since_ms: int
    reason: str = ""
    release: str = ""
    host: str = ""
    http: str = ""


_decoder = json_decoder(Replica)


def decode(data: bytes) -> Replica:
    """The state of a replica.

    Raises:
        Undecodable: not this znode's JSON.
    """
    return decode_json(_decoder, data)


def encode(replica: Replica) -> bytes:
    """The state of a replica.

    >>> encode(Replica("standby", True, 1700000000000, "watching /controller", "0.1.0", "host-1", "host-1:9640"))[:62]
    b'{"version":1,"phase":"standby","is_ready":true,"since_ms":1700'
    """
    return encode_json(
        {
            "version": 1,
            "phase": replica.phase,
            "is_ready": replica.is_ready,
            "since_ms": replica.since_ms,
            "reason": replica.reason,
            "release": replica.release,
            "host": replica.host,
            "http": replica.http,
        }
    )
