"""What has a broker been asked about its log directories, and how long may it take to answer?"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.ids import BrokerEpoch, TopicPartition

REPLICAS_A_SECOND = 20_000
"""A broker examines all its replicas, also to answer for one."""
GIVEN_UP_S = 60.0


class Question(Struct, frozen=True):
    """What a broker has been asked, in which of its lives, and when."""

    epoch: BrokerEpoch
    asked_at: float
    partitions: tuple[TopicPartition, ...]
