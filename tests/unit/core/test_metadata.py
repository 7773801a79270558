"""What does a client see of partitions that no one leads?"""

from __future__ import annotations

from tests.unit.traps.play import Play, some


def test_a_partition_that_never_had_a_leader_is_there_without_one() -> None:
    play = Play("brokers 1,2", "elect", "create topic lost 0=7,8")

    assert some(play.do("ask metadata lost"), "lost-0 leader=-1 isr=[] replicas=[7, 8] LEADER_NOT_AVAILABLE")


def test_a_partition_that_has_lost_its_leader_still_shows_who_was_in_sync() -> None:
    play = Play("brokers 1,2", "topic orders 0=1", "elect", "broker 1 dies")

    assert some(play.do("ask metadata"), "orders-0 leader=-1 isr=[1] replicas=[1] LEADER_NOT_AVAILABLE")


def test_a_broker_that_a_clients_listener_does_not_reach_is_no_leader_for_it() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect")
    registration = '{"version":5,"endpoints":["TLS://host1:9093"],"listener_security_protocol_map":{"TLS":"SSL"}}'

    lines = play.do(f"znode /brokers/ids/1 {registration}", "ask metadata")

    assert some(lines, "connect 1")  # the same life, at another address
    assert some(lines, "answer controller=100 brokers=2,100")
    assert some(lines, "orders-0 leader=-1 isr=[1, 2] replicas=[1, 2] LEADER_NOT_AVAILABLE")
