"""How does a process that does not lead learn of each change of a partition's state?

A term writes these znodes itself, or is asked or notified by the leaders of partitions, and watches few of them. Here
each is watched: the watch is set before the znode is read, so that no change is missed. Changes that come together are
read together.

One recursive watch can stand for all of them where the server knows such watches. It also reports states that have not
been read yet: until `begin` these are remembered. Later, a state that is seen for the first time is read once more,
whether or not the watch has reported it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from controller.core.messages.effects import Read
from controller.zk.answers import Change, WatchEvent
from controller.zk.bridge import Bridge
from zk_layout.catalog import address_of
from zk_layout.facts import Fact
from zk_layout.ids import PartitionId, TopicName, Zxid
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import TopicAddress

_AT_ONCE: Final = 5_000
_GONE_FOR_S: Final = 1.0
_STATE: Final = "/state"
ABOVE: Final = "/brokers"
"""Of the recursive watch. Above all topics: their own parent has another watch, for new ones."""


class StateWatch:
    """Watches the states of all partitions in one session; `read` has them read again."""

    def __init__(self, bridge: Bridge, read: Callable[[Read], None], *, is_recursive: bool = False) -> None:
        """Nothing is watched before `prepare` and `begin`. With `is_recursive`, one watch does, if the server knows
        such watches."""
        self._bridge = bridge
        self._read = read
        self.is_recursive = is_recursive
        self._early: set[StateAddress] = set()
        self._watched: dict[TopicName, set[PartitionId]] = {}
        self._due: dict[StateAddress, bool] = {}
        self._has_begun = self._is_scheduled = False
        self._timers: dict[StateAddress, asyncio.TimerHandle] = {}

    @property
    def count(self) -> int:
        """How many states are watched."""
        return sum(map(len, self._watched.values()))

    def saw(self, facts: Iterable[Fact]) -> None:
        """Watch the states among these facts, and forget those of topics that are gone."""
        for fact in facts:
            address = fact.address
            if isinstance(address, StateAddress):
                watched = self._watched.get(address.topic)
                if watched is not None and address.partition not in watched:
                    watched.add(address.partition)
                    self._due[address] = fact.is_present
            elif isinstance(address, TopicAddress) and fact.is_present:
                self._watched.setdefault(address.topic, set())
            elif isinstance(address, TopicAddress):
                self._watched.pop(address.topic, None)
        self._schedule()

    async def prepare(self) -> Zxid:
        """Hear of changes; what is read from now on is as of the zxid returned, or later.

        Raises:
            SessionEnded: the session has ended.
        """
        self._bridge.watch_listeners.append(self._on_watch)
        if self.is_recursive:
            self.is_recursive = await self._bridge.watch_below(ABOVE, _STATE)
        _, zxid = await self._bridge.exists("/")
        return zxid

    async def begin(self, since: Zxid) -> None:
        """Watch all states seen so far: each was read at `since` or later.

        Raises:
            SessionEnded: the session has ended.
        """
        seen = [address for address, exists in self._due.items() if exists]
        for begun in range(0, len(seen), _AT_ONCE):
            part = seen[begun : begun + _AT_ONCE]
            for address in part:
                self._due.pop(address, None)
            await self._bridge.watch_data_since([address.path for address in part], since)
            await asyncio.sleep(0)  # a recursive watch leaves nothing to wait for
        self._due.update((address, True) for address in self._early if self._is_watched(address))
        self._early.clear()
        self._has_begun = True
        self._schedule()

    @property
    def due_count(self) -> int:
        """How many states have changed, or may have, and are to be read."""
        return len(self._due.keys() | self._timers.keys())

    def stop(self) -> tuple[StateAddress, ...]:
        """Have nothing more read; return the states that are still to be read."""
        self._has_begun = False
        self._early.clear()
        for timer in self._timers.values():
            timer.cancel()
        if self._on_watch in self._bridge.watch_listeners:
            self._bridge.watch_listeners.remove(self._on_watch)
            self._bridge.restore_none(_STATE)
            if self.is_recursive:
                self._bridge.unwatch_below()
        left = (*self._due, *(address for address in self._timers if address not in self._due))
        self._due, self._timers = {}, {}
        return left

    def _on_watch(self, event: WatchEvent) -> None:
        address = address_of(event.path) if event.path.endswith(_STATE) else None
        if not isinstance(address, StateAddress):
            return
        if not self._has_begun:
            self._early.add(address)
        elif not self._is_watched(address):
            pass
        elif event.change is Change.DELETED:
            # Mostly its topic is being deleted, and there is nothing to wait for.
            self._later(address)
        else:
            self._due[address] = True
            self._schedule()

    def _is_watched(self, address: StateAddress) -> bool:
        return address.partition in self._watched.get(address.topic, ())

    def _later(self, address: StateAddress) -> None:
        def look() -> None:
            del self._timers[address]
            if self._is_watched(address):
                self._due[address] = False
                self._schedule()

        if address not in self._timers:
            self._timers[address] = asyncio.get_running_loop().call_later(_GONE_FOR_S, look)

    def _schedule(self) -> None:
        if self._due and self._has_begun and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go)

    def _go(self) -> None:
        self._is_scheduled = False
        if not self._has_begun:
            return
        due, self._due = self._due, {}
        self._set(due, self._bridge.seen_zxid)
        self._read(Read(tuple(due)))

    def _set(self, due: Mapping[StateAddress, bool], since: Zxid) -> None:
        self._bridge.watch_data((address.path for address, exists in due.items() if exists), since)
        self._bridge.watch_creation(address.path for address, exists in due.items() if not exists)
