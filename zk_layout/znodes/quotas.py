"""Which users and clients may change topics only at a limited rate?

Source: Kafka's ClientQuotaManager, QuotaConfigs and ConfigEntityZNode; KIP-599.
"""

from __future__ import annotations

from math import inf, isnan
from typing import NamedTuple

from zk_layout.codec import excerpt
from zk_layout.znodes.configs import ClientConfigAddress, Config, UserClientConfigAddress, UserConfigAddress

RATE = "controller_mutation_rate"
DEFAULT = "<default>"


class QuotaEntity(NamedTuple):
    """The subject of a quota: a user, a client id, or both together; None stands for any.

    Shape:
        Spelt as in paths, or `<default>`: all that have no quota of their own at this level.
    """

    user: str | None
    client: str | None


def entity_of(address: object) -> QuotaEntity | None:
    """The entity that a znode limits; None for one that holds no quotas.

    >>> entity_of(UserClientConfigAddress("ann", "<default>"))
    QuotaEntity(user='ann', client='<default>')
    """
    match address:
        case UserConfigAddress(user):
            return QuotaEntity(user, None)
        case UserClientConfigAddress(user, client):
            return QuotaEntity(user, client)
        case ClientConfigAddress(client):
            return QuotaEntity(None, client)
        case _:
            return None


def rate_of(config: Config) -> float | None:
    """How many partitions may be created or deleted in a second; None without a limit.

    >>> rate_of(Config({"controller_mutation_rate": "2.5"})), rate_of(Config({"producer_byte_rate": "1024"}))
    (2.5, None)

    Raises:
        ValueError: no number that can be a rate.
    """
    written = config.config.get(RATE)
    if written is None:
        return None
    wrong = f"{RATE} is {excerpt(written.encode())}, not a number from 0 on"
    try:
        rate = float(written.strip().rstrip("dDfF"))  # Java accepts a suffix
    except ValueError:
        raise ValueError(wrong) from None
    if isnan(rate) or rate < 0:
        raise ValueError(wrong)
    return None if rate == inf else rate
