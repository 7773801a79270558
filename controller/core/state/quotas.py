"""Which quota limits a user's client? The most specific one that is set.

Source: Kafka's ClientQuotaManager.DefaultQuotaCallback, with its order of levels: first that decides by whom changes
are counted, then the rate is looked up for those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zk_layout.znodes.quotas import DEFAULT, QuotaEntity

ANY = ""


class Limit(NamedTuple):
    """How much somebody may change.

    Shape:
        Who has the same `user` and `client` shares it; they are spelt as in paths, and empty where they do not count.
    """

    user: str
    client: str
    rate: float


class Quotas:
    """What ZooKeeper has of quotas on changes of topics."""

    def __init__(self) -> None:
        self._rates: dict[QuotaEntity, float] = {}

    def __bool__(self) -> bool:
        """Whether anybody is limited."""
        return bool(self._rates)

    def apply(self, read: Iterable[tuple[QuotaEntity, float | None]]) -> None:
        """Take over what was read; None where there is no rate any more."""
        for entity, rate in read:
            if rate is None:
                self._rates.pop(entity, None)
            else:
                self._rates[entity] = rate

    def limit(self, user: str, client: str) -> Limit | None:
        """What limits this client of this user, both spelt as in paths; None where nothing does.

        Without a client id, no quota of client ids applies, not even the default one.
        """
        counted = self._counted(user, client)
        for entity in _levels(*counted):
            rate = self._rates.get(entity)
            if rate is not None:
                return Limit(*counted, rate)
        return None

    def _counted(self, user: str, client: str) -> tuple[str, str]:
        """By whom changes are counted: by users with their clients, by users, or by clients."""
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
