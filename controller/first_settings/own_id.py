"""Which id can a new replica have? One that neither a broker nor another replica has, nor a topic names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from zk_layout.ids import BrokerId

FIRST: Final = 901
_HIGHEST: Final = 2**31 - 1


def free_id(taken: Collection[BrokerId], highest: int | None) -> BrokerId | None:
    """The first free id from 901 on, or else the next one below. Ids above `highest` are generated for brokers.

    >>> free_id([1, 2, 901], 1000), free_id([1, 2], 10), free_id([0, 1], 1)
    (902, 10, None)
    """
    most = _HIGHEST if highest is None else highest
    upwards = range(FIRST, min(most, FIRST + len(taken)) + 1)
    downwards = range(min(most, FIRST - 1), -1, -1)
    found = next((number for numbers in (upwards, downwards) for number in numbers if number not in taken), None)
    return None if found is None else BrokerId(found)
