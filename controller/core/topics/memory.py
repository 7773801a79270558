"""What does the duty for topics remember of this term?"""

from __future__ import annotations

from msgspec import Struct, field

from zk_layout.ids import TopicName


class TopicsMemory(Struct, frozen=True, eq=False):
    """Written by `Topics`, in `deletion.py`."""

    # Topics whose deletion continues although its request was withdrawn: brokers are sent nothing about them until the
    # request is back.
    withdrawn: dict[TopicName, None] = field(default_factory=dict)
