"""May a move begin, or has an operator paused moves?

Moves under way go on, and can be cancelled. What others have begun, such as a native controller, counts as under way.
"""

from __future__ import annotations

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.stage import in_force
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change
from zk_layout.znodes.pause import Pause

UNTIL = "until `kafka-zk-controller resume`"


def holds_back(case: Case | None, cluster: Cluster, wanted: Change) -> bool:
    """Whether a pause forbids this change of replicas: it begins or redirects a move.

    To give a moving partition the replicas from before its move, in any order, is to cancel it.
    """
    to = wanted.assignment
    if case is None or to is None or cluster.pause is None:
        return False
    start = in_force(case.assignment, case.state)
    return not (start.is_moving and not to.is_moving and set(to.replicas) == set(start.original))


def refusal(pause: Pause) -> Refusal:
    """The answer to a client that asks for a move.

    >>> print(refusal(Pause("ann@host", 0, "new disks")).message)
    Moves are paused by ann@host (new disks): none begins until `kafka-zk-controller resume`. Those under way go on.
    """
    why = f" ({pause.reason})" if pause.reason else ""
    message = f"Moves are paused by {pause.by}{why}: none begins {UNTIL}. Those under way go on."
    return Refusal(ErrorCode.POLICY_VIOLATION, message)
