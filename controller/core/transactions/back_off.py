"""How long to wait before what was refused is tried again?

A conflict is cured by reading again, nearly always at once. What is refused again and again, such as a write without
permission, must not be tried as fast as the network goes.
"""

from __future__ import annotations

AT_ONCE = 3
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0


def doubled_s(times: int, first_s: float, longest_s: float) -> float:
    """A wait that doubles with each time.

    >>> [doubled_s(n, 0.5, 10.0) for n in (1, 2, 3, 9)]
    [0.5, 1.0, 2.0, 10.0]
    """
    return min(first_s * 2.0 ** min(times - 1, 30), longest_s)


def wait_s(refusals: int) -> float | None:
    """How long to wait after so many refusals in a row; None to try again at once.

    >>> [wait_s(n) for n in (1, 3, 4, 5, 20)]
    [None, None, 1.0, 2.0, 30.0]
    """
    return None if refusals <= AT_ONCE else doubled_s(refusals - AT_ONCE, FIRST_WAIT_S, LONGEST_WAIT_S)
