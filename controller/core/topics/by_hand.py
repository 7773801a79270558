"""Which topics were edited by hand so that brokers cannot agree about them? They are named; nothing is decided.

Kafka's controller says nothing in either case. Brokers keep the logs of a topic whose znode has vanished, since only a
request to delete it makes the controller send them StopReplica. Since 2.8 brokers and clients know topics by their
ids, so two topics with one id are one to them.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.ids import TopicId, TopicName

NAMED = 5


class TopicsByHand(Duty):
    """Names each such topic once a term."""

    def __init__(self, shared: Shared) -> None:
        self._cluster = shared.cluster
        self._names: dict[TopicId, TopicName] = {}

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Compare the ids that are new, and look for topics that are gone without a request to delete them."""
        removed = [
            name
            for name, view in changes.gone_topics.items()
            if not view.is_queued_for_deletion and name not in changes.marks
        ]
        if removed:
            text = f"{_listed(removed)} removed without a request to delete: the replicas stay on brokers' disks"
            out.notice("removed topic znode", text)
        for name in tuple(self._cluster.topics) if changes.is_beginning else changes.topics:
            former = changes.topics.get(name)
            self._compare(name, None if former is None else former.topic_id, out)

    def _compare(self, name: TopicName, former: TopicId | None, out: Outbox) -> None:
        topics = self._cluster.topics
        topic_id = topics[name].topic_id if name in topics else None
        if topic_id is None or topic_id == former:
            return
        other = self._names.get(topic_id, name)
        if other != name and other in topics and topics[other].topic_id == topic_id:
            out.notice("duplicate topic id", f"topics {other} and {name} have the same id {topic_id}")
        else:
            self._names[topic_id] = name


def _listed(names: Sequence[TopicName]) -> str:
    """The first few, and how many there are.

    >>> _listed([TopicName("a")]), _listed([TopicName("a"), TopicName("b")])
    ('the znode of topic a was', 'the znodes of 2 topics (a, b) were')
    """
    if len(names) == 1:
        return f"the znode of topic {names[0]} was"
    more = " …" if len(names) > NAMED else ""
    return f"the znodes of {len(names)} topics ({', '.join(names[:NAMED])}{more}) were"
