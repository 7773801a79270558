"""Which entries of /admin/reassign_partitions are refused because their partitions are gone, and who is looked at?"""

from __future__ import annotations

import pytest

from controller.core.state.view import Cluster
from tests.unit.traps.play import Play, some
from zk_layout.ids import TopicPartition

TOPICS = ("topic orders 0=1,2", "topic bills 0=1,2", "topic logs 0=1,2")
ENTRIES = "legacy orders-0=1,3 bills-0=1,3"


def test_of_entries_only_those_are_looked_at_again_whose_topics_are_being_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play("brokers 1,2,3", *TOPICS, "elect", ENTRIES)
    asked: list[str] = []
    is_missing = Cluster.is_missing

    def noted(cluster: Cluster, at: TopicPartition) -> bool:
        asked.append(str(at))
        return is_missing(cluster, at)

    monkeypatch.setattr(Cluster, "is_missing", noted)

    play.do("delete topic logs")
    assert not {"orders-0", "bills-0"} & {*asked}

    assert some(play.do("delete topic bills"), "entry bills-0", "is refused and removed", "does not exist")
    assert "bills-0" in asked


def test_the_entry_of_a_topic_that_someone_deletes_by_hand_is_removed() -> None:
    play = Play("brokers 1,2,3", *TOPICS, "elect", ENTRIES)

    below = "/brokers/topics/orders/partitions"
    lines = play.do(*(f"remove {path}" for path in (f"{below}/0/state", f"{below}/0", below, "/brokers/topics/orders")))

    assert some(lines, "entry orders-0", "is refused and removed", "does not exist")
    assert "orders" not in (play.data("/admin/reassign_partitions") or "")
