"""What does the duty for topics remember of this term?"""

from __future__ import annotations

from msgspec import Struct, field

from zk_layout.ids import TopicName


class TopicsMemory(Struct, frozen=True, eq=False):
    """Written by `Topics`, in `deletion.py`."""

    # Their deletion goes on although its request was taken away: brokers hear nothing of them until it is there again.
    withdrawn: dict[TopicName, None] = field(default_factory=dict)
