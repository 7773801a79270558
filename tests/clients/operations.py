"""What does each client do, and which part of its answer counts?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

OPERATIONS: Mapping[str, str] = {
    "describe_cluster": "the brokers, who the controller is, and whether its address answers",
    "create_topic": "3 partitions, 2 replicas each; what the answer says of the topic, where the client shows it",
    "create_with_configs": "a topic with settings",
    "create_assigned": "a topic with a replica assignment by hand",
    "validate_only": "a topic that is only checked, not created",
    "create_existing": "a topic that exists: refused",
    "create_with_too_many_replicas": "9 replicas on 3 brokers: refused",
    "list_topics": "the topics created so far, and none that was only checked",
    "describe_topic": "leaders, replicas and ISR of two topics",
    "create_partitions": "from 3 partitions to 5",
    "create_fewer_partitions": "from 5 partitions to 2: refused",
    "grow_unknown": "more partitions for a topic that does not exist: refused",
    "alter_configs": "one setting changes, another stays; incrementally, where the client can",
    "describe_configs": "both settings of that topic, and where they come from",
    "reassign": "a throttled move of one partition is accepted",
    "list_reassignments": "that move, while it is under way",
    "cancel_reassignment": "it is cancelled, and gone from the list",
    "cancel_nothing": "cancelled once more: refused",
    "reassign_unknown": "a move of a topic that does not exist: refused",
    "elect_leaders": "the preferred leader comes to lead",
    "elect_again": "once more, though it leads already: refused",
    "elect_unknown": "for a topic that does not exist: refused",
    "produce_consume": "100 records through the same bootstrap address, with a consumer group",
    "list_groups": "that group",
    "alter_scram": "a user's SCRAM credentials are set",
    "describe_scram": "they are shown, and deleted",
    "delete_records": "the first 10 records of a partition",
    "delete_topic": "a topic, until no list has it",
    "delete_unknown": "a topic that does not exist: refused",
}
"""Operation → description, in the order in which a client runs them."""


class Run(Struct, frozen=True):
    """The facts about one process of a client that are needed to read its results.

    `own_id` is our controller's, absent if a native one leads. `answers` says whether a process listens at an address.
    """

    prefix: str
    own_id: int | None
    answers: Callable[[str, int], bool]


def normalised(operation: str, result: Any, run: Run) -> Any:
    """The part of a result that is the same in each good run, without ids, addresses, or names of this run."""
    result = _placeholders(result, run.prefix)
    if isinstance(result, dict) and "message" in result:
        return {**result, "message": without_addresses(str(result["message"]))}
    if not isinstance(result, dict) or "error" in result:
        return result
    reading = _READINGS.get(operation)
    return reading(result, run) if reading else result


def _placeholders(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {_placeholders(key, prefix): _placeholders(held, prefix) for key, held in value.items()}
    if isinstance(value, list):
        return [_placeholders(held, prefix) for held in value]
    return value.replace(prefix, "our") if isinstance(value, str) else value


def without_addresses(message: str) -> str:
    """A client's text about a failure, without parts that differ between runs.

    >>> without_addresses("Timed out at 127.0.0.1:15003 after 20011ms (node 2)")
    'Timed out at <address> after <n>ms (node 2)'
    """
    message = re.sub(r"(localhost|127\.0\.0\.1)(/127\.0\.0\.1)?:\d+", "<address>", message)
    return re.sub(r"\d{3,}", "<n>", message)


def _cluster(result: dict[str, Any], run: Run) -> Any:
    controller = result.get("controller")
    host, _, port = str(result.pop("controller_address", "")).rpartition(":")
    nodes = result["nodes"]
    found: dict[str, Any] = {"brokers": sorted(node for node in nodes if node != run.own_id)}
    if controller is not None:
        found["controller is listed"] = controller in nodes
        found["controller leads"] = run.own_id in (None, controller)
        found["controller answers"] = bool(port) and run.answers(host, int(port))
    return found


def _described(result: dict[str, Any], run: Run) -> Any:
    """Normalize replicas that the controller chose: any choice is as good."""
    return {
        topic: partitions if topic.endswith("-assigned") else [_shape(partition) for partition in partitions]
        for topic, partitions in result.items()
    }


def _shape(partition: dict[str, Any]) -> dict[str, Any]:
    replicas = partition["replicas"]
    return {
        "partition": partition["partition"],
        "replicas": len(set(replicas)),
        "in sync": len(set(partition["isr"]) & set(replicas)),
        "led by the first": partition["leader"] == replicas[0],
        "on brokers": set(replicas) <= {1, 2, 3},
    }


_READINGS: Mapping[str, Callable[[dict[str, Any], Run], Any]] = {
    "describe_cluster": _cluster,
    "describe_topic": _described,
}
