"""In which order do faults strike? The same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count

from msgspec import Struct

from tests.chaos.faults import BY_NAME, Fault, Role, may_be_paired

SHORTEST_CALM_S, LONGEST_CALM_S = 3.0, 8.0
_SINGLES_BEFORE_A_PAIR = 2


class Blow(Struct, frozen=True):
    """One fault of a strike.

    Shape:
        `victim`, modulo the number of a role's members, chooses one of them.
    """

    fault: Fault
    victim: int


class Strike(Struct, frozen=True):
    """One fault, or two at the same time.

    Units:
        `calm_s` seconds pass before it, and it lasts `hold_s`.
    """

    number: int
    blows: tuple[Blow, ...]
    calm_s: float
    hold_s: float

    @property
    def name(self) -> str:
        """Its name in lists."""
        return " + ".join(sorted(blow.fault.name for blow in self.blows)) or "(no fault)"


def schedule(seed: int, faults: Sequence[Fault], *, with_pairs: bool = True) -> Iterator[Strike]:
    """Endless strikes: each fault once before any is repeated, a pair after every second one.

    Some of a few faults cannot be paired; they only strike singly.
    """
    source = random.Random(seed)
    numbers = count(1)
    while True:
        deck = list(faults)
        source.shuffle(deck)
        for place, fault in enumerate(deck, 1):
            yield _strike(source, next(numbers), (fault,))
            if with_pairs and place % _SINGLES_BEFORE_A_PAIR == 0 and (pair := _pair(source, faults)):
                yield _strike(source, next(numbers), pair)


def scripted(names: Sequence[str | tuple[str, ...]], *, calm_s: float = 3.0, seed: int = 1) -> tuple[Strike, ...]:
    """A fixed sequence of faults by name, several at the same time as a tuple."""
    source = random.Random(seed)
    strikes = []
    for number, entry in enumerate(names, 1):
        faults = tuple(BY_NAME[name] for name in ((entry,) if isinstance(entry, str) else entry))
        drawn = _strike(source, number, faults)
        strikes.append(Strike(number, drawn.blows, calm_s, drawn.hold_s))
    return tuple(strikes)


def _pair(source: random.Random, faults: Sequence[Fault]) -> tuple[Fault, Fault] | None:
    pairs = [(one, other) for i, one in enumerate(faults) for other in faults[i + 1 :] if may_be_paired(one, other)]
    return source.choice(pairs) if pairs else None


def _strike(source: random.Random, number: int, faults: tuple[Fault, ...]) -> Strike:
    victim = source.randrange(1000)
    # Two different brokers are struck.
    blows = tuple(Blow(fault, victim + place) for place, fault in enumerate(faults))
    calm_s = source.uniform(SHORTEST_CALM_S, LONGEST_CALM_S)
    hold_s = max(source.uniform(fault.shortest_s, fault.longest_s) for fault in faults)
    return Strike(number, blows, round(calm_s, 1), round(hold_s, 1))


def healing_order(strike: Strike) -> tuple[Blow, ...]:
    """The order of healing, by dependency: the ensemble, then brokers, then controllers."""
    order = (Role.ENSEMBLE, Role.ZOOKEEPER_LEADER, Role.ZOOKEEPER_FOLLOWER, Role.BROKERS, Role.BROKER)
    return tuple(sorted(strike.blows, key=lambda b: order.index(b.fault.role) if b.fault.role in order else len(order)))
