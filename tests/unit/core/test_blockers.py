"""Why is a move not done yet?"""

from __future__ import annotations

import pytest

from controller.core.progress.blockers import Outages, Seen, waits_for
from controller.core.state.topics import Partition
from controller.core.state.view import Cluster
from tests.unit.core.builders import AT, Term, cluster, ids, state
from zk_layout.ids import BrokerId
from zk_layout.znodes.reassignment_status import ReplicaProgress
from zk_layout.znodes.topics import Assignment

MB = 1 << 20
NOW = 1000.0
MOVE = Assignment(ids("3,2,1"), adding=ids("3"), removing=ids("1"))


def reason(
    leader: int,
    isr: str,
    known: Cluster,
    *replicas: ReplicaProgress,
    confirmed: str = "",
    outages: Outages | None = None,
) -> str | None:
    """What the move of replica 1 to broker 3 waits for."""
    seen = Seen(AT, Partition(MOVE, state(leader, isr)), frozenset(ids(confirmed)), replicas)
    return waits_for(seen, known, outages or Outages(began=NOW - 300), NOW)


@pytest.mark.parametrize(
    ("replica", "sentence"),
    [
        (ReplicaProgress(3), "replica 3 is not in sync yet"),
        (ReplicaProgress(3, 0, 41 * MB), "replica 3 is 41.0 MB behind"),
        (ReplicaProgress(3, MB, 42 * MB, 12.0 * MB, 3.4), "replica 3 is 41.0 MB behind at 12.0 MB/s"),
        (ReplicaProgress(3, MB, 42 * MB, 0.0, None), "replica 3 is 41.0 MB behind and copies nothing"),
        (ReplicaProgress(3, MB, 42 * MB, 12.0 * MB, None), "replica 3 is 41.0 MB behind at 12.0 MB/s"),
        (ReplicaProgress(3, MB, MB, 1.0, 0.0), "replica 3 has copied everything and is to join the ISR"),
    ],
)
def test_a_replica_that_copies_says_how_far_it_is(replica: ReplicaProgress, sentence: str) -> None:
    assert reason(1, "1,2", cluster("1,2,3"), replica) == sentence


def test_what_new_data_takes_is_said_once_it_is_known_that_the_replica_comes_no_nearer() -> None:
    late, moving = ReplicaProgress(3, MB, 42 * MB, 12.0 * MB, None), Partition(MOVE, state(1, "1,2"))
    seen = Seen(AT, moving, frozenset(), (late,), {BrokerId(3): -1.0 * MB})

    assert waits_for(seen, cluster("1,2,3"), Outages(began=NOW), NOW) == (
        "replica 3 is 41.0 MB behind at 12.0 MB/s, while new data comes at 13.0 MB/s"
    )


def test_a_broker_that_is_away_is_named_with_how_long() -> None:
    away = Outages(began=NOW - 9000, offline_since={BrokerId(3): NOW - 720})

    assert reason(1, "1,2", cluster("1,2"), outages=away) == "broker 3 has been offline for 12 min"
    assert reason(1, "1,2", cluster("1,2")) == "broker 3 has been offline for at least 5 min"


def test_a_leader_that_does_not_answer_is_named_with_the_reason() -> None:
    silent = Outages(silent_since={BrokerId(1): (NOW - 20, "connection refused")})

    assert reason(1, "1,2", cluster("1,2,3"), outages=silent) == (
        "the leader 1 has not answered for 20 s (connection refused)"
    )


def test_without_a_leader_the_in_sync_replicas_are_named() -> None:
    assert reason(-1, "1,2", cluster("3")) == (
        "no replica leads the partition, so nothing is copied: "
        "broker 1 has been offline for at least 5 min; broker 2 has been offline for at least 5 min"
    )


def test_a_bad_log_directory_is_named() -> None:
    term = Term("1,2,3")
    term.memory.brokers.fail_replica(AT, BrokerId(3))

    assert reason(1, "1,2", term.cluster) == "the log directory of replica 3 is offline"


def test_a_target_that_cannot_lead_is_named() -> None:
    assert reason(1, "1,2,3", cluster("1", shutting_down="")) == (
        "no replica of the target can lead: "
        "broker 3 has been offline for at least 5 min; broker 2 has been offline for at least 5 min"
    )


def test_who_has_not_confirmed_its_deletion_is_named() -> None:
    assert reason(3, "3,2", cluster("1,2,3")) == "waits for broker 1 to confirm that the replica there is deleted"


def test_no_one_is_waited_for_when_all_have_confirmed_or_cannot() -> None:
    assert reason(3, "3,2", cluster("1,2,3"), confirmed="1") is None
    assert reason(3, "3,2", cluster("2,3")) is None
