"""Which metadata that wait for a broker reach it in one command?

A broker merges one UpdateMetadata after the other into what it knows, so several in a row come to the same as one with
the last of each partition. Nothing waits for that: only what has queued up behind an earlier command is joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from controller.core.announcing.views import DELETED
from controller.core.messages.commands import PartitionView, UpdateMetadata
from controller.core.messages.effects import Tell
from zk_layout.ids import PartitionId, TopicId, TopicName

COMMANDS_JOINED = 50
PARTITIONS_JOINED = 1_000
_REMEMBERED = 16

Joined = tuple[tuple[UpdateMetadata, ...], UpdateMetadata]


class Joining:
    """Joins metadata for all links. What is joined alike for several brokers is one value, so it is encoded once."""

    def __init__(self) -> None:
        """Nothing is joined yet."""
        self._joined: dict[tuple[int, ...], Joined] = {}

    def first(self, queue: Iterable[Tell]) -> tuple[Tell, tuple[Tell, ...]]:
        """The next command to send, and the queued ones that it stands for: the first, and perhaps some after it."""
        some = tuple(islice(queue, COMMANDS_JOINED))
        count = _count(some)
        if count == 1:
            return some[0], some[:1]
        commands = tuple(tell.command for tell in some[:count] if isinstance(tell.command, UpdateMetadata))
        return replace(some[0], command=self._join(commands)), some[:count]

    def _join(self, commands: tuple[UpdateMetadata, ...]) -> UpdateMetadata:
        key = tuple(map(id, commands))
        known = self._joined.get(key)
        if known is None:
            partitions: dict[tuple[TopicName, PartitionId], PartitionView] = {}
            for command in commands:
                partitions.update(((seen.topic, seen.partition), seen) for seen in command.partitions)
            joined = UpdateMetadata(tuple(partitions.values()), commands[-1].brokers)
            known = self._joined[key] = commands, joined  # keeps the commands, so that their identities stay theirs
            if len(self._joined) > _REMEMBERED:
                del self._joined[next(iter(self._joined))]
        return known[1]

    def forget(self) -> None:
        """Drop all that is remembered for sharing."""
        self._joined.clear()


def _count(some: tuple[Tell, ...]) -> int:
    """How many of these commands, from the first on, come to the same as one."""
    first, size = some[0], 0
    ids: dict[TopicName, TopicId | None] = {}
    for count, tell in enumerate(some):
        command = tell.command
        if not isinstance(command, UpdateMetadata) or not isinstance(first.command, UpdateMetadata):
            return max(1, count)
        size += len(command.partitions)
        is_alike = command.brokers == first.command.brokers and tell.controller_epoch == first.controller_epoch
        if not is_alike or size > PARTITIONS_JOINED or not _have_one_life(command, ids):
            return max(1, count)
    return len(some)


def _have_one_life(command: UpdateMetadata, ids: dict[TopicName, TopicId | None]) -> bool:
    """Whether no topic is deleted, or had another id before: a broker must hear of both lives, one after the other."""
    for seen in command.partitions:
        if seen.leader == DELETED or ids.setdefault(seen.topic, seen.topic_id) != seen.topic_id:
            return False
    return True
