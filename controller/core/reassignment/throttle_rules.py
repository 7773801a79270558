"""What must the settings of a topic or a broker say, so that its moves are throttled, and as before afterwards?

Only receiving replicas are throttled: what a leader sends to a replica that returns after a failure stays fast.

Source: KIP-73; Kafka's `follower.replication.throttled.replicas` and `follower.replication.throttled.rate`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from msgspec import Struct

from zk_layout.znodes.throttles import ThrottledBroker, ThrottledTopic

ALL_REPLICAS = "*"
RAMP_STEPS = 10
_READABLE = re.compile(r"[0-9]+:[0-9]+\Z")


class Wish(Struct, frozen=True):
    """What one znode of settings, and our record of it, must say.

    Shape:
        `value` is that of the setting; None if it must not be set. `record` is None if there must be none. `yielded`
        says what someone else has changed meanwhile, and what is left to them; None if nothing.
    """

    value: str | None
    record: ThrottledTopic | ThrottledBroker | None
    yielded: str | None = None


def joined(prior: str | None, ours: Collection[str]) -> str | None:
    """A list with our replicas behind those that were there.

    >>> joined("7:1, 8:1", ["10:2", "9:2"]), joined("", ["0:4"]), joined(" *", ["0:4"])
    ('7:1,8:1,9:2,10:2', '0:4', ' *')
    >>> joined(None, ["0:4"]), joined("0:4", ["0:4"]), joined("7:1, 8:1", [])
    ('0:4', '0:4', '7:1, 8:1')

    What brokers cannot read is left out meanwhile: blanks, too, cost them the whole list.
    """
    there = entries(prior)
    if not ours or there == [ALL_REPLICAS]:
        return prior
    readable = [entry for entry in there if _READABLE.match(entry)]
    return ",".join([*readable, *sorted((entry for entry in ours if entry not in readable), key=_numbers)])


def entries(text: str | None) -> list[str]:
    """The replicas in a list.

    >>> entries("0:1, 2:3"), entries(""), entries(None)
    (['0:1', '2:3'], [], [])
    """
    return [entry for entry in (part.strip() for part in (text or "").split(",")) if entry]


def topic_wish(
    record: ThrottledTopic | None, current: str | None, wanted: Mapping[str, int], asked: Collection[str]
) -> Wish:
    """What a topic's list must be, and our record of it.

    >>> topic_wish(None, "7:1", {"0:4": 5}, ["0:4"])
    Wish(value='7:1,0:4', record=ThrottledTopic(prior='7:1', ours={'0:4': 5}), yielded=None)
    >>> topic_wish(ThrottledTopic("7:1", {"0:4": 5}), "7:1,0:4", {}, [])
    Wish(value='7:1', record=None, yielded=None)

    Shape:
        `current` is the list as read. `wanted` are the replicas to throttle now, with their rates; `asked` are those of
        requests that have no answer yet: of the others, none is put back that someone has taken out.
    """
    prior, ours, yielded = current, dict[str, int](), None
    if record is not None:
        prior, ours = record.prior, record.ours
        if current != joined(prior, ours):
            there = entries(current)
            ours = {entry: rate for entry, rate in ours.items() if entry in there}
            prior = ",".join(entry for entry in there if entry not in ours) if ours else current
            if current is None or (ours and not prior):
                prior = None
            yielded = "the list of throttled replicas"
    kept = {e: rate for e, rate in sorted(wanted.items(), key=_by_numbers) if record is None or e in ours or e in asked}
    if not kept:
        return Wish(prior, None, yielded)
    return Wish(joined(prior, kept), ThrottledTopic(prior, kept), yielded)


def broker_wish(record: ThrottledBroker | None, current: str | None, wanted: int | None, *, is_asked: bool) -> Wish:
    """What a broker's rate must be, and our record of it.

    >>> broker_wish(None, "5", 7, is_asked=True)
    Wish(value='5', record=ThrottledBroker(prior='5', ours='5'), yielded=None)
    >>> broker_wish(ThrottledBroker("9", "7"), "7", None, is_asked=False)
    Wish(value='9', record=None, yielded=None)
    >>> broker_wish(ThrottledBroker("9", "7"), "8", 7, is_asked=False)
    Wish(value='8', record=ThrottledBroker(prior='9', ours=None), yielded='the rate')

    Shape:
        `current` is the rate as read, `wanted` the lowest of its throttled replicas; None if it has none any more.
        `is_asked`: a request without an answer throttles it, which ends what someone else has decided since.
    """
    if record is None:
        return Wish(current, None) if wanted is None else _limited(current, wanted)
    is_ours = record.ours is not None and record.ours == current
    yielded = None if is_ours or record.ours is None else "the rate"
    if wanted is None:
        return Wish(record.prior if is_ours else current, None, yielded)
    if is_ours:
        return _limited(record.prior, wanted)
    if is_asked:
        return _limited(current, wanted, yielded)
    return Wish(current, ThrottledBroker(record.prior, None), yielded)


def raised(ours: str | None, target: int) -> int | None:
    """By how much a rate goes up a second, so that it reaches the target within ten; None if it need not rise.

    >>> raised("6000000", 16000000), raised("7", 8), raised("8", 8), raised("9", 8), raised(None, 8)
    (1000000, 1, None, None, None)

    Brokers average over that time: a raise at once lets through at once what ten seconds of it are worth.
    """
    if ours is None or not ours.isascii() or not ours.isdigit() or int(ours) >= target:
        return None
    return -((int(ours) - target) // RAMP_STEPS)


def _limited(prior: str | None, wanted: int, yielded: str | None = None) -> Wish:
    """A lower rate that was there before counts."""
    is_lower = prior is not None and prior.strip().isascii() and prior.strip().isdigit() and int(prior) <= wanted
    ours = prior if is_lower and prior is not None else str(wanted)
    return Wish(ours, ThrottledBroker(prior, ours), yielded)


def _numbers(entry: str) -> tuple[int, ...]:
    return tuple(map(int, entry.split(":")))


def _by_numbers(item: tuple[str, int]) -> tuple[int, ...]:
    return _numbers(item[0])
