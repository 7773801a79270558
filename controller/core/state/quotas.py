"""Which quota limits a user's client? The most specific one that is set.

Source: Kafka's ClientQuotaManager.DefaultQuotaCallback, with its order of levels: the first level with any quota
decides whose changes are counted together, and the rate is then looked up for those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zk_layout.znodes.quotas import DEFAULT, QuotaEntity

ANY = ""


class Limit(NamedTuple):
    """How much a user or client may change.

    Shape:
        Clients with the same `user` and `client` share it; both are spelled as in paths, and empty if irrelevant.
    """

    user: str
    client: str
    rate: float


class Quotas:
    """The quotas on changes of topics in ZooKeeper."""

    def __init__(self) -> None:
        self._rates: dict[QuotaEntity, float] = {}

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return bool(self._rates)

    def apply(self, read: Iterable[tuple[QuotaEntity, float | None]]) -> None:
        """Store the rates that were read; None removes one."""
        for entity, rate in read:
            if rate is None:
                self._rates.pop(entity, None)
            else:
                self._rates[entity] = rate

    def limit(self, user: str, client: str) -> Limit | None:
        """The limit of this client of this user, both spelled as in paths; None if there is none.

        Without a client id, no quota of client ids applies, not even the default one.
        """
        counted = self._counted(user, client)
        for entity in _levels(*counted):
            rate = self._rates.get(entity)
            if rate is not None:
                return Limit(*counted, rate)
        return None

    def _counted(self, user: str, client: str) -> tuple[str, str]:
        """Whose changes are counted together: those of a user's client, of a user, or of a client."""
        for of_user in (user, DEFAULT):
            if any(QuotaEntity(of_user, of_client) in self._rates for of_client in (client, DEFAULT)):
                return user, client
            if QuotaEntity(of_user, None) in self._rates:
                return user, ANY
        return ANY, client


def _levels(user: str, client: str) -> tuple[QuotaEntity, ...]:
    if user and client:
        return tuple(QuotaEntity(u, c) for u in (user, DEFAULT) for c in (client, DEFAULT))
    if user:
        return QuotaEntity(user, None), QuotaEntity(DEFAULT, None)
    if client:
        return QuotaEntity(None, client), QuotaEntity(None, DEFAULT)
    return ()
