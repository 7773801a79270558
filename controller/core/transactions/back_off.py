"""How long does a refused write wait before the next attempt?

Reading again nearly always resolves a conflict at once. But a write that is refused repeatedly, for example for lack of
permission, must not be retried at network speed.
"""

from __future__ import annotations

AT_ONCE = 3
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0


def doubled_s(times: int, first_s: float, longest_s: float) -> float:
    """A wait that doubles each time, up to `longest_s`.

    >>> [doubled_s(n, 0.5, 10.0) for n in (1, 2, 3, 9)]
    [0.5, 1.0, 2.0, 10.0]
    """
    return min(first_s * 2.0 ** min(times - 1, 30), longest_s)


def wait_s(refusals: int) -> float | None:
    """The wait after this many consecutive refusals; None to retry at once.

    >>> [wait_s(n) for n in (1, 3, 4, 5, 20)]
    [None, None, 1.0, 2.0, 30.0]
    """
    return None if refusals <= AT_ONCE else doubled_s(refusals - AT_ONCE, FIRST_WAIT_S, LONGEST_WAIT_S)
