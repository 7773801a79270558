"""Which quotas on topic changes are in force, whether or not this process leads?

Read in every session, and followed as brokers do, by change notifications. A cluster may have very many users, few with
a quota of this kind, so users' znodes are not watched one by one. Terms receive only the quota, because a user's znode
also holds credentials, which must not get into a journal.

Source: Kafka's DynamicConfigManager, UserConfigHandler and ClientIdConfigHandler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from controller.core.messages.effects import Notice, ReadAgain
from controller.core.messages.events import Event, Observed, QuotasRead, ReadAllowed, ReadRefused
from controller.following.session_reader import SessionReader
from controller.runtime.supervision import Troubles
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader, ChunkSize, Hidden
from controller.zk.protocol import Node
from controller.zk.reader import Reader
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.codec import Malformed, one_line
from zk_layout.watched import CHANGED_CONFIGS
from zk_layout.znodes.configs import CLIENTS, USERS, Config, clients_of
from zk_layout.znodes.notifications import ConfigChange
from zk_layout.znodes.quotas import QuotaEntity, entity_of, rate_of

AT_ONCE: Final = 500

Rates = dict[QuotaEntity, float]


class QuotasFollower(SessionReader["_Session"]):
    """Sends each term the quotas in force. Before the first complete read, no quota applies.

    The last session's quotas stay in force until the next session has read everything.
    """

    part = "following quotas"

    def __init__(
        self,
        bridge: Callable[[], Bridge],
        notice: Callable[[Notice], None] = lambda _: None,
        troubles: Troubles | None = None,
    ) -> None:
        """`bridge` returns the current connection to ZooKeeper; `notice` receives each unreadable znode once."""
        super().__init__(bridge, notice, troubles)
        self._rates: Rates = {}
        self.limits_users = False
        """Whether any quota depends on the user of a request."""
        self._emit: Callable[[Event], None] | None = None

    def begin_term(self, emit: Callable[[Event], None]) -> None:
        """Send a term all quotas known, then every change."""
        self._emit = emit
        self._tell(self._rates.items())

    def end_term(self) -> None:
        """Stop sending."""
        self._emit = None

    def _begin(self, bridge: Bridge) -> tuple[_Session, Reader]:
        session = _Session(bridge, self._apply, self._name)
        return session, Reader(bridge, session.hear, what=CHANGED_CONFIGS)

    async def _load(self, session: _Session) -> None:
        await session.read_everything()

    def _unread(self, session: _Session) -> Collection[str]:
        return session.refused | session.refused_changes

    async def _go_on(self, session: _Session, reader: Reader, ending: asyncio.Future[None], wait_s: float) -> bool:
        while await session.is_changed_within(wait_s, ending):
            await session.read_changed()
        is_unread = bool(self._unread(session))
        if is_unread:
            reader.read_again(ReadAgain(tuple(session.refused_changes)))
            await session.read_everything()
        return is_unread

    def _apply(self, read: dict[QuotaEntity, float | None], *, is_everything: bool) -> None:
        gone = {entity: None for entity in self._rates if entity not in read} if is_everything else {}
        changed = {entity: rate for entity, rate in {**gone, **read}.items() if self._rates.get(entity) != rate}
        for entity, rate in changed.items():
            if rate is None:
                del self._rates[entity]
            else:
                self._rates[entity] = rate
        self.limits_users = any(entity.user is not None for entity in self._rates)
        self._tell(changed.items())

    def _tell(self, changed: Iterable[tuple[QuotaEntity, float | None]]) -> None:
        changes = tuple(changed)
        for begun in range(0, len(changes), AT_ONCE):
            if self._emit is not None:
                self._emit(QuotasRead(changes[begun : begun + AT_ONCE]))


class _Session:
    """Everything read in one session. Reads run one at a time, so that the last one is the newest."""

    def __init__(self, bridge: Bridge, apply: Callable[..., None], name: Callable[[str, Notice | None], None]) -> None:
        self._bridge, self._apply, self._name = bridge, apply, name
        self._bulk = BulkReader(bridge)
        self._changed: dict[str, None] = {}
        self._is_changed = asyncio.Event()
        self.refused: set[str] = set()
        self.refused_changes: set[str] = set()

    async def is_changed_within(self, timeout_s: float, ending: asyncio.Future[None]) -> bool:
        """True if something changed before the timeout and the end of the session."""
        changing: asyncio.Future[Any] = asyncio.ensure_future(self._is_changed.wait())
        await asyncio.wait([ending, changing], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        changing.cancel()
        return self._is_changed.is_set()

    def hear(self, event: Event) -> None:
        match event:
            case Observed(facts):
                changes = (fact.value for fact in facts if isinstance(fact.value, ConfigChange))
                paths = (f"/config/{change.entity_path}" for change in changes)
                self._changed.update((path, None) for path in paths if entity_of(catalog.address_of(path)) is not None)
                if self._changed:
                    self._is_changed.set()
            case ReadRefused(path, reason, _):
                self.refused_changes.add(path)
                self._name(path, Notice("unreadable znode", f"{reason}; changes of quotas take no effect"))
            case ReadAllowed(path):
                self.refused_changes.discard(path)
                self._name(path, None)
            case _:
                pass  # `load` returns

    async def read_changed(self) -> None:
        paths, self._changed = tuple(self._changed), {}
        self._is_changed.clear()
        self._apply(await self._read(paths), is_everything=False)

    async def read_everything(self) -> None:
        self.refused.clear()
        users, clients = await self._names(USERS), await self._names(CLIENTS)
        paths = [f"{CLIENTS}/{name}" for name in clients] + [f"{USERS}/{name}" for name in users]
        for begun in range(0, len(users), AT_ONCE):
            folders = await self._present([clients_of(user) for user in users[begun : begun + AT_ONCE]])
            below = await asyncio.gather(*map(self._names, folders))
            paths += [f"{folder}/{name}" for folder, names in zip(folders, below, strict=True) for name in names]
        read: dict[QuotaEntity, float | None] = {}
        for begun in range(0, len(paths), AT_ONCE):
            found = await self._read(paths[begun : begun + AT_ONCE])
            read.update((entity, rate) for entity, rate in found.items() if rate is not None)
        self._apply(read, is_everything=True)

    async def _present(self, folders: Sequence[str]) -> list[str]:
        """The folders that exist. Asks for all at once, because most users have none."""
        present = []
        for folder, (node, _) in zip(folders, await self._bulk.read(folders, ChunkSize()), strict=True):
            if isinstance(node, Hidden):
                self._refuse(folder, node.reason)
            elif node is not None:
                present.append(folder)
        return present

    async def _names(self, folder: str) -> list[str]:
        try:
            names, _ = await self._bridge.children(folder)
        except Refused as error:
            self._refuse(folder, f"{error} (its children)")
            return []
        self._name(folder, None)
        return names or []

    async def _read(self, paths: Sequence[str]) -> dict[QuotaEntity, float | None]:
        """The rates from the znodes that can hold one; None where the znode is absent or unreadable."""
        entities: dict[Address, QuotaEntity] = {}
        for path in paths:
            address = catalog.address_of(path)
            entity = entity_of(address)
            if address is not None and entity is not None:
                entities[address] = entity
        rates: dict[QuotaEntity, float | None] = dict.fromkeys(entities.values())
        found = await self._bulk.read([address.path for address in entities], ChunkSize())
        for (address, entity), (node, _) in zip(entities.items(), found, strict=True):
            if isinstance(node, Hidden):
                self._refuse(address.path, node.reason)
            elif node is None:
                self._name(address.path, None)
            else:
                rates[entity] = self._rate(address, node)
        return rates

    def _rate(self, address: Address, node: Node) -> float | None:
        path, value = address.path, catalog.decode(address, node.data)
        try:
            if isinstance(value, Malformed):
                raise ValueError(value.reason)
            rate = rate_of(value) if isinstance(value, Config) else None
        except ValueError as error:
            text = f"{one_line(path)}: {one_line(str(error))}; no quota is taken from it until its content is corrected"
            self._name(path, Notice("malformed znode", text))
            return None
        self._name(path, None)
        return rate

    def _refuse(self, path: str, reason: str) -> None:
        self.refused.add(path)
        text = f"{one_line(reason)}; no quota is taken from it until it can be read"
        self._name(path, Notice("unreadable znode", text))
