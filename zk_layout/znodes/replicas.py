"""Which replicas of this controller run, and in which state is each?

Our own ephemeral znodes `/kafka_zk_controller/replicas/<broker.id>`, each written by the replica itself, for people
and tools. A leader that stops finds its successor among them, and a standby whether the leader answers a challenge; no
other decision rests on them.
"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.codec import encode_version_1, json_decoder
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
        `is_paused`: it begins no move, now or if it leads. `answers_challenges`: as a leader it answers the challenges
        of standbys; a leader that does not say so is never challenged.

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
    is_paused: bool = False
    answers_challenges: bool = False


decode = json_decoder(Replica)
"""The state of a replica."""


def encode(replica: Replica) -> bytes:
    """The state of a replica.

    >>> encode(Replica("standby", True, 1700000000000, "watching /controller", "0.1.0", "host-1", "host-1:9640"))[:62]
    b'{"version":1,"phase":"standby","is_ready":true,"since_ms":1700'
    """
    return encode_version_1(replica)
