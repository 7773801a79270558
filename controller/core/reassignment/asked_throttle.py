"""What is asked for by a request for throttled moves, and what is missing until its throttle is in force?"""

from __future__ import annotations

from math import inf

from msgspec import Struct, field

from controller.core.state.throttles import Throttled
from zk_layout.ids import BrokerId, Replicas, TopicName, TopicPartition


class AskedThrottle(Struct, eq=False):
    """A request whose moves are to be throttled, until it has its answer; or moves that znodes ask for.

    Shape:
        `held` are the latter, with the replicas that they are to have; their numbers are negative, requests' are not.
        `targets` are those of its parts that are not decided yet, without those in `superseded`, which a later request
        has decided otherwise. `missing` are the topics and brokers whose settings are not written yet. Of the brokers
        in `unseen` it is not known that their new rate is in force; each is waited for until its time at the latest.
        Whatever they show, its moves do not begin before `begins_at`.
    """

    targets: dict[TopicPartition, Replicas | None]
    lists: dict[TopicName, dict[str, int]]
    missing: dict[Throttled, None]
    unseen: dict[BrokerId, float] = field(default_factory=dict)
    begins_at: float = -inf
    has_begun: bool = False
    superseded: dict[TopicPartition, None] = field(default_factory=dict)
    held: dict[TopicPartition, Replicas] = field(default_factory=dict)

    @property
    def is_listed(self) -> bool:
        """Whether all its lists are written."""
        return not any(isinstance(of, str) for of in self.missing)
