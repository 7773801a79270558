"""Why was a move stalled?"""

from __future__ import annotations

from controller.core.stage import Stage
from controller.core.steps.change import listed
from metrics.replay.partitions.moves import Move
from metrics.replay.partitions.terms import Terms
from zk_layout.ids import BrokerId

_END = 2**63 - 1


def why_stalled(move: Move, now_ms: int, terms: Terms) -> str | None:
    """What the move waited for in its longest pause, as far as the log shows; None if it never stalled."""
    if not move.is_stalled(now_ms):
        return None
    pause = move.pause(now_ms)
    reasons = []
    seen = terms.between(pause.since_zxid, _END if pause.until_zxid is None else pause.until_zxid)
    absent = tuple(r for r in pause.missing if any(r not in term.brokers for term in seen))
    if pause.stage == Stage.CATCHING_UP.value and pause.missing:
        reasons.append(f"{listed(pause.missing)} had to catch up")
    elif pause.stage == Stage.CATCHING_UP.value:
        reasons.append("the target was in sync, and no leader said so")
    else:
        reasons.append(f"the controller did not continue {pause.stage}")
    if absent:
        reasons.append(f"{_brokers(absent)} not there")
    if seen[-1].claimed >= 0 and any(term.controller is None for term in seen):
        reasons.append("no controller led")
    return "; ".join(reasons)


def _brokers(absent: tuple[BrokerId, ...]) -> str:
    names = ", ".join(str(r) for r in absent)
    return f"broker {names} was" if len(absent) == 1 else f"brokers {names} were"
