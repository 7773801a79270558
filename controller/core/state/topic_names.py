"""Which names may a topic have?

Source: Kafka's Topic.validate and Topic.hasCollision: a name becomes part of folder names and of metric names, in which
'.' and '_' look the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from zk_layout.ids import TopicName

LONGEST = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def problem_of(name: str) -> str | None:
    """The problem of a name by itself; None if it is legal.

    >>> problem_of("orders"), problem_of("a/b")
    (None, "Topic name is illegal: 'a/b' has a character other than ASCII letters and digits, '.', '_' and '-'")
    """
    if not name:
        return "Topic name is illegal: it can't be empty"
    if name in (".", ".."):
        return f"Topic name is illegal: it can't be '{name}'"
    if len(name) > LONGEST:
        return f"Topic name is illegal: it has {len(name)} characters, more than the {LONGEST} allowed"
    if _LEGAL.match(name) is None:
        return f"Topic name is illegal: '{name}' has a character other than ASCII letters and digits, '.', '_' and '-'"
    return None


def look_of(name: str) -> str | None:
    """The name as it looks in metrics; None if no other name can look the same.

    >>> look_of("a.b_c"), look_of("orders")
    ('a_b_c', None)
    """
    return name.replace(".", "_") if "." in name or "_" in name else None


def collision(name: TopicName, alike: Iterable[TopicName]) -> str | None:
    """The problem of a name beside others that look the same; None if there are none."""
    others = sorted(other for other in alike if other != name)
    if not others:
        return None
    return f"Topic '{name}' collides with existing topics: {', '.join(others)}"
