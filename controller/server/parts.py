"""How does the term take a long request without a long turn? In parts that have nothing to do with each other.

Only requests are divided whose entries are decided one by one. AlterPartitionReassignments is not: all its moves are
one request, with one id and one status; the term takes it in over several turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from msgspec import structs

from controller.core.messages import requests
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    LeadersElected,
    PartitionsAltered,
    PartitionsCreated,
    Reply,
    ScramCredentialsAltered,
    TopicsCreated,
    TopicsDeleted,
)
from controller.server.inquiries import Inquiries

MOST_AT_ONCE = 1_000
_Entry = TypeVar("_Entry")
_Replies = (
    LeadersElected | PartitionsAltered | PartitionsCreated | ScramCredentialsAltered | TopicsCreated | TopicsDeleted
)


def parts_of(request: requests.Request) -> list[requests.Request]:
    """The request, or several that ask the same together. What is said twice of one thing stays together."""
    match request:
        case requests.AlterPartition():
            proposals = _parts(request.proposals, lambda p: (p.topic, p.partition), _one)
            return [structs.replace(request, proposals=part) for part in proposals]
        case requests.ElectLeaders() if request.partitions is not None:
            partitions = _parts(request.partitions, lambda at: at, _one)
            return [structs.replace(request, partitions=part) for part in partitions]
        case requests.DeleteTopics():
            topics = _parts(request.topics, lambda topic: topic, _one)
            return [structs.replace(request, topics=part) for part in topics]
        case requests.CreatePartitions():
            growths = _parts(request.growths, lambda growth: growth.topic, lambda g: 1 + len(g.assignments or ()))
            return [structs.replace(request, growths=part) for part in growths]
        case requests.CreateTopics():
            new = _parts(
                request.topics, lambda topic: topic.name, lambda t: max(1, t.partition_count, len(t.assignments))
            )
            return [structs.replace(request, topics=part) for part in new]
        case requests.AlterScramCredentials():
            users = _parts(request.parts, lambda part: part.user, _one)
            return [
                requests.AlterScramCredentials(
                    tuple(entry for entry in part if isinstance(entry, requests.ScramUpsertion)),
                    tuple(entry for entry in part if isinstance(entry, requests.ScramDeletion)),
                )
                for part in users
            ]
        case _:
            return [request]


def whole(replies: Sequence[Reply]) -> Reply:
    """The answer to all parts together, with the first error that is about a part as a whole."""
    first = replies[0]
    if len(replies) == 1 or not isinstance(first, _Replies):
        return first
    results = tuple(result for reply in replies if isinstance(reply, _Replies) for result in reply.results)
    if isinstance(first, PartitionsCreated | TopicsCreated | TopicsDeleted):
        longest_ms = max(getattr(reply, "throttle_ms", 0) for reply in replies)
        return structs.replace(first, results=results, throttle_ms=longest_ms)
    if isinstance(first, ScramCredentialsAltered):
        return structs.replace(first, results=results)
    errors = (r.error for r in replies if isinstance(r, LeadersElected | PartitionsAltered) and r.error)
    return structs.replace(first, results=results, error=next(errors, ErrorCode.NONE))


async def ask_in_parts(inquiries: Inquiries, request: requests.Request, caller: requests.Caller) -> Reply:
    """The answer to a request, each part of which is asked in a turn of its own."""
    parts = parts_of(request)
    if len(parts) == 1:
        return await inquiries.ask(request, caller)
    async with asyncio.TaskGroup() as tasks:
        asking = []
        for part in parts:
            asking.append(tasks.create_task(inquiries.ask(part, caller)))
            await asyncio.sleep(_BETWEEN_PARTS_S)
    return whole([task.result() for task in asking])


_BETWEEN_PARTS_S = 0.001  # a turn of the loop or two, so that the next part comes to a turn of its own


def _one(_: object) -> int:
    return 1


def _parts(
    entries: Sequence[_Entry], about: Callable[[_Entry], Hashable], weight: Callable[[_Entry], int]
) -> list[tuple[_Entry, ...]]:
    """At least one part, be it without entries."""
    if sum(map(weight, entries)) <= MOST_AT_ONCE:
        return [tuple(entries)]
    together: dict[Hashable, list[_Entry]] = {}
    for entry in entries:
        together.setdefault(about(entry), []).append(entry)
    parts: list[list[_Entry]] = [[]]
    weighs = 0
    for alike in together.values():
        heavy = sum(map(weight, alike))
        if parts[-1] and weighs + heavy > MOST_AT_ONCE:
            parts.append([])
            weighs = 0
        parts[-1] += alike
        weighs += heavy
    return [tuple(part) for part in parts]
