"""Who moved what, when, why, from where to where, and how did it go? A log of its own, a JSON object a line."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from controller.core.messages.effects import Asking, MoveAccounted, RequestAccounted

LOGGER: Final = "controller.moves"
_log = structlog.wrap_logger(
    logging.getLogger(LOGGER), wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET)
)


def request(told: RequestAccounted) -> None:
    """Log that a request was accepted, or that it has ended."""
    _log.info(
        "request ended" if told.is_end else "request accepted",
        **_asking(told.by),
        happened=_time(told.at_ms),
        counts=dict(told.counts),
    )


def move(told: MoveAccounted) -> None:
    """Log that a move has ended."""
    _log.info(
        "move ended",
        **_asking(told.by),
        happened=_time(told.at_ms),
        topic=told.at.topic,
        partition=told.at.partition,
        before=None if told.before is None else list(told.before),
        after=list(told.after),
        is_cancel=told.is_cancel,
        outcome=told.outcome,
        copied_bytes=told.copied_bytes,
        waiting_s=told.waiting_s,
        copying_s=told.copying_s,
        finishing_s=told.finishing_s,
    )


def _asking(by: Asking) -> dict[str, Any]:
    caller = by.caller
    return {
        "request": by.request,
        "origin": by.origin,
        "requested": _time(by.requested_ms),
        "principal": None if caller is None else caller.principal,
        "client_id": None if caller is None else caller.client_id,
        "address": None if caller is None else caller.address,
        "reason": by.reason,
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
