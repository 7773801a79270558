"""What does a planner know of a cluster, and what is it asked to reach?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from zk_layout.ids import BrokerId, Replicas, TopicName, TopicPartition


class Unplannable(ValueError):
    """No plan can reach this; the message says why."""


class Placed(Struct, frozen=True, gc=False):
    """One partition: its replicas, the preferred leader first, and the size of each.

    Shape:
        One that `is_fixed` keeps its replicas, and still weighs on its brokers.
    """

    at: TopicPartition
    replicas: Replicas
    size_bytes: int = 0
    is_fixed: bool = False


class Layout(Struct, frozen=True):
    """A cluster: the brokers that are alive, with their racks, and every partition.

    Shape:
        Replicas may be on brokers that are not in `racks`. Either all brokers have a rack or none.
    """

    racks: Mapping[BrokerId, str | None]
    partitions: Sequence[Placed]


class By(Enum):
    """What is balanced: bytes and numbers of replicas."""

    BYTES = "bytes"
    COUNTS = "counts"


class Aims(Struct, frozen=True):
    """What a plan is to reach. Only `balances` makes replicas move that need not.

    Shape:
        Everything leaves the brokers of `leaving`, to the one in `replacements` where that has room. Nothing moves to
        brokers outside `receivers`, if there are any. `replication_factors` are by topic.
    Units:
        `slack` is the share by which a broker may be above or below its fair share.
    """

    leaving: frozenset[BrokerId] = frozenset()
    replacements: Mapping[BrokerId, BrokerId] = {}
    receivers: frozenset[BrokerId] = frozenset()
    replication_factors: Mapping[TopicName, int] = {}
    repairs_racks: bool = False
    balances: frozenset[By] = frozenset()
    slack: float = 0.05
    balances_leaders: bool = False
