"""When does a condition come true?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from controller.lab.errors import LabError

T = TypeVar("T")


def wait_for(find: Callable[[], T | None], what: str, *, timeout_s: float = 180.0, every_s: float = 0.05) -> T:
    """Poll until `find` returns something other than None or False.

    Raises:
        LabError: it did not come true in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found = find()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            raise LabError(f"{what} did not come true within {timeout_s:g} s")
        time.sleep(every_s)
