"""What is ready to be written, and how much of it is proposed in one turn?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TypeVar

from controller.core.messages.events import Again
from controller.core.messages.outbox import Outbox
from controller.core.transactions.proposal import Proposal

K = TypeVar("K")


def propose_ready(
    ready: dict[K, None], most: int, propose: Callable[[K, Outbox], Proposal | None], out: Outbox
) -> list[Proposal]:
    """Take up to `most` of what is ready, in order, and collect what is proposed about each, if anything.

    What is left, or becomes ready meanwhile, is for the next turn, which follows at once.
    """
    proposals: list[Proposal] = []
    for one in tuple(islice(ready, most)):
        del ready[one]
        proposal = propose(one, out)
        if proposal is not None:
            proposals.append(proposal)
    if ready:
        out.wake(Again(), out.now)
    return proposals
