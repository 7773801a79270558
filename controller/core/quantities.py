"""How are bytes and durations written for people?"""

from __future__ import annotations

_UNITS = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))
_SPANS = ((86400, "d"), (3600, "h"), (60, "min"))


def size(count: float) -> str:
    """Format a number of bytes.

    >>> size(41 * 2**30), size(812), size(1.5 * 2**20)
    ('41.0 GB', '812 B', '1.5 MB')
    """
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def span(seconds: float) -> str:
    """Format a duration.

    >>> span(12.4), span(90), span(7300)
    ('12 s', '1 min', '2 h')
    """
    for unit, name in _SPANS:
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name}"
    return f"{seconds:.0f} s"
