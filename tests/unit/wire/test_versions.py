"""Which version of each request follows from the brokers' inter-broker protocol?"""

from __future__ import annotations

import pytest

from controller.wire.versions import parse_protocol

HIGHEST_OF_EACH_RELEASE = {
    # release: LeaderAndIsr, StopReplica, UpdateMetadata (the highest the release's brokers know)
    "2.4": (4, 2, 6),
    "2.5": (4, 2, 6),
    "2.6": (4, 3, 6),
    "2.7": (4, 3, 6),
    "2.8": (5, 3, 7),
    "3.0": (5, 3, 7),
    "3.1": (5, 3, 7),
    "3.2": (6, 3, 7),
    "3.3": (6, 3, 7),
    "3.4": (7, 4, 8),
    "3.5": (7, 4, 8),
    "3.6": (7, 4, 8),
    "3.7": (7, 4, 8),
    "3.8": (7, 4, 8),
    "3.9": (7, 4, 8),
}


@pytest.mark.parametrize(("release", "highest"), HIGHEST_OF_EACH_RELEASE.items())
def test_a_release_speaks_the_highest_versions_its_brokers_know(release: str, highest: tuple[int, ...]) -> None:
    protocol = parse_protocol(release)

    assert (protocol.leader_and_isr, protocol.stop_replica, protocol.update_metadata) == highest


def test_the_first_protocol_with_adding_replicas_comes_before_compact_encodings() -> None:
    protocol = parse_protocol("2.4-IV0")

    assert (protocol.leader_and_isr, protocol.stop_replica, protocol.update_metadata) == (3, 1, 5)


def test_topic_ids_come_before_the_requests_that_carry_them() -> None:
    protocol = parse_protocol("2.8-IV0")

    assert protocol.has_topic_ids
    assert protocol.leader_and_isr == 4


def test_leaders_ask_the_controller_for_isr_changes_from_the_last_internal_version_of_2_7() -> None:
    assert not parse_protocol("2.7-IV1").leaders_use_alter_partition
    assert parse_protocol("2.7").leaders_use_alter_partition


def test_unclean_elections_mark_a_partition_as_recovering_from_3_2() -> None:
    assert not parse_protocol("3.1").has_leader_recovery_state
    assert parse_protocol("3.2").has_leader_recovery_state


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("2.4", "2.4-IV1"),
        ("2.4-IV0", "2.4-IV0"),
        ("3.3", "3.3-IV3"),
        ("3.7", "3.7-IV4"),
        ("3.9-IV0", "3.9-IV0"),
        ("3.9.1", "3.9-IV0"),
        (" 2.8 ", "2.8-IV1"),
    ],
)
def test_a_release_alone_means_its_last_internal_version(text: str, full: str) -> None:
    assert str(parse_protocol(text)) == full


def test_later_protocols_are_greater() -> None:
    in_order = [parse_protocol(text) for text in ("2.4-IV0", "2.4-IV1", "2.7-IV2", "2.8-IV0", "3.0-IV1", "3.9")]

    assert sorted(reversed(in_order)) == in_order


@pytest.mark.parametrize("text", ["", "four", "2", "2.4-IV2", "2.9", "3.10", "4.0", "3.9-IV1", "3.9-iv0", "2.4;"])
def test_a_wrong_protocol_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"2\.4 \(-IV0 to -IV1\).*3\.9 \(-IV0\)"):
        parse_protocol(text)


@pytest.mark.parametrize("text", ["0.10.2", "1.1", "2.3", "2.3-IV1"])
def test_a_protocol_before_2_4_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(ValueError, match=r"unsupported.*raise inter\.broker\.protocol\.version"):
        parse_protocol(text)
