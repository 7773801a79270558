"""Which part of a client's result is compared?"""

from __future__ import annotations

from typing import Any

from tests.clients.operations import Run, normalised

OURS = Run("java-ours-brokers", 901, lambda _, port: port == 9095)
NATIVE = Run("java-native-brokers", None, lambda *_: True)


def cluster(*nodes: int, controller: int, port: int = 9095) -> dict[str, Any]:
    return {"nodes": list(nodes), "controller": controller, "controller_address": f"127.0.0.1:{port}"}


def test_our_node_is_taken_out_of_the_brokers() -> None:
    ours = normalised("describe_cluster", cluster(1, 2, 3, 901, controller=901), OURS)
    native = normalised("describe_cluster", cluster(1, 2, 3, controller=2), NATIVE)

    assert ours == native
    assert ours["brokers"] == [1, 2, 3]


def test_a_controller_that_is_another_or_does_not_answer_or_is_not_listed_differs() -> None:
    native = normalised("describe_cluster", cluster(1, 2, 3, controller=2), NATIVE)

    for seen in (
        cluster(1, 2, 3, 901, controller=2),
        cluster(1, 2, 3, 901, controller=901, port=1),
        cluster(1, 2, 3, controller=901),
        cluster(1, 2, 901, controller=901),
    ):
        assert normalised("describe_cluster", seen, OURS) != native


def test_names_of_the_run_and_addresses_are_replaced() -> None:
    message = "Topic 'java-ours-brokers-plain' at 127.0.0.1:15003 after 20011 ms"

    said = normalised("create_existing", {"error": "X", "message": message}, OURS)

    assert said == {"error": "X", "message": "Topic 'our-plain' at <address> after <n> ms"}


def test_any_choice_of_replicas_is_as_good_but_their_number_counts() -> None:
    def described(*replicas: int, leader: int, isr: list[int]) -> Any:
        partition = {"partition": 0, "leader": leader, "replicas": list(replicas), "isr": isr}
        return normalised("describe_topic", {"java-ours-brokers-plain": [partition]}, OURS)

    assert described(1, 2, leader=1, isr=[1, 2]) == described(3, 1, leader=3, isr=[1, 3])
    assert described(1, 2, leader=1, isr=[1, 2]) != described(1, 2, leader=2, isr=[1, 2])
    assert described(1, 2, leader=1, isr=[1, 2]) != described(1, 2, leader=1, isr=[1])
    assert described(1, 2, leader=1, isr=[1, 2]) != described(1, 901, leader=1, isr=[1, 901])
    assert described(1, 2, leader=1, isr=[1, 2]) != described(1, leader=1, isr=[1])


def test_an_assignment_by_hand_counts_as_it_is() -> None:
    def described(*replicas: int) -> Any:
        partition = {"partition": 0, "leader": replicas[0], "replicas": list(replicas), "isr": sorted(replicas)}
        return normalised("describe_topic", {"java-ours-brokers-assigned": [partition]}, OURS)

    assert described(1, 2) != described(2, 3)
