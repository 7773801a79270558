"""How does the log look? Lines for people, JSON for machines; the standard library's loggers go the same way.

Every line has `time`, `level`, `event` (what happened), `component` (which part says so), and `epoch` while this
process is the controller; other fields say more. Lines go to standard error.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LOUD_LIBRARIES = ("kazoo", "aiohttp", "asyncio")
HIDDEN = "[hidden]"
SECRETS = ("password", "secret", "jaas", "credential")

_term: dict[str, int] = {}


def configure(level: str, style: str) -> None:
    """Write to standard error from now on; `style` is text, json or auto (text on a terminal)."""
    as_json = style == "json" or (style == "auto" and not sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
        _complete,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_tail(as_json=as_json))
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in LOUD_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def term(epoch: int | None) -> None:
    """Every line from now on, of any thread, has this controller epoch; None when the term is over."""
    _term.clear()
    if epoch is not None:
        _term["epoch"] = epoch


def _complete(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Name the part, add the term, hide secrets; what every line has comes first."""
    component = str(event.pop("logger", "")).removeprefix("controller.")
    standard = {key: event.pop(key) for key in ("time", "level", "event") if key in event}
    hidden = {key: HIDDEN for key in event if any(word in key.lower() for word in SECRETS)}
    return {**standard, "component": component, **_term, **event, **hidden}


def _tail(*, as_json: bool) -> list[Processor]:
    """The last steps. Tracebacks come without the values of local variables: those can be large, and secret."""
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if as_json:
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [
            remove,
            structlog.processors.ExceptionRenderer(tracebacks),
            structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
        ]
    return [
        remove,
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            pad_event_to=48,
            timestamp_key="time",
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]
