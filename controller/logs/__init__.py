"""How does the log look? Lines for people, JSON for machines; the standard library's loggers go the same way.

Every line has `time`, `level`, `event` (what happened), `component` (which part logs it), and `epoch` while this
process is the controller; other fields add details. A thread of its own writes lines to standard error.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from controller.logs import lines
from controller.logs.floods import WINDOW_S, Floods
from controller.logs.writing import LineWriter

LOUD_LIBRARIES = ("kazoo", "aiohttp", "asyncio")
HIDDEN = "[hidden]"
SECRETS = ("password", "secret", "jaas", "credential")
FLUSH_WITHIN_S: Final = 1.0

_term: dict[str, int] = {}
_shared: list[Processor] = []
_separated: list[logging.Logger] = []
_log = structlog.get_logger(__name__)


def configure(level: str, style: str) -> None:
    """Write to standard error from now on, from this level on, which `set_level` changes; `style` is text, json or auto
    (text on a terminal)."""
    as_json = style == "json" or (style == "auto" and not sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
        _complete,
        lines.bounded,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        cache_logger_on_first_use=True,
    )
    _shared[:] = shared
    handler = _Handler(sys.stderr.fileno(), _formatter(as_json=as_json, is_colored=sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)
    # These would write to standard error themselves, and block on its reader.
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def set_level(level: str) -> None:
    """Log from this level on; libraries from a warning on at least."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for name in LOUD_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def set_level_of(logger: str, level: str) -> None:
    """Give one logger a level of its own, whatever that of the others is; off silences it."""
    logging.getLogger(logger).setLevel(logging.CRITICAL + 1 if level == "off" else level.upper())


def separate(logger: str, level: str, path: Path | None, style: str, *, is_whole: bool = False) -> None:
    """Give one logger a level of its own and, with a path, append its lines to a file of their own; if it `is_whole`,
    all of them, however many are alike.

    Raises:
        OSError: the file cannot be written.
    """
    separated = logging.getLogger(logger)
    set_level_of(logger, level)
    if path is not None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        handler = _Handler(descriptor, _formatter(as_json=style != "text", is_colored=False))
        if is_whole:
            handler.floods = Floods(most=sys.maxsize)
        separated.handlers[:] = [handler]
        separated.propagate = False
        _separated.append(separated)


def _formatter(*, as_json: bool, is_colored: bool) -> logging.Formatter:
    tail = _tail(as_json=as_json, is_colored=is_colored)
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_shared, processors=tail)


class _Handler(logging.Handler):
    """Formats lines and has them written; neither a slow reader nor a flood of lines blocks the caller."""

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.floods = Floods()
        self.writer = LineWriter(descriptor, self._gap, self._settle)

    def emit(self, record: logging.LogRecord) -> None:
        """Have one line written, unless there are too many like it."""
        if record.levelno < logging.INFO or self.floods.passes(_kind(record), time.monotonic()):
            self.writer.put(self._line(record))

    def flush(self) -> None:
        """Wait briefly until everything is written; also when the process ends."""
        self.writer.flush(FLUSH_WITHIN_S)

    def _settle(self) -> None:
        self.acquire()
        try:
            settled = self.floods.settled(time.monotonic())
        finally:
            self.release()
        for kind, count in settled:
            self.writer.put(self._said(f"{count} more log lines like this within {WINDOW_S:g} s: {kind}"))

    def _gap(self, count: int) -> bytes:
        return self._said(f"{count} log lines are missing here: they were not read in time")

    def _said(self, text: str) -> bytes:
        return self._line(logging.makeLogRecord({"name": __name__, "levelno": 30, "levelname": "WARNING", "msg": text}))

    def _line(self, record: logging.LogRecord) -> bytes:
        try:
            text = self.format(record)
        except Exception as error:
            text = f"a log line of {record.name} cannot be formatted: {type(error).__name__}"
        return text.encode("utf-8", "backslashreplace") + b"\n"


def _kind(record: logging.LogRecord) -> str:
    """What two similar lines share: the text around their details."""
    said = record.msg
    if isinstance(said, dict):
        said = said.get("kind") or said.get("event")
    return f"{record.name.removeprefix('controller.')}: {lines.cut(str(said), 200)}"


def lost() -> dict[str, int]:
    """By reason, how many lines were dropped since the start."""
    handlers = list(_handlers())
    return {
        "not read in time": sum(handler.writer.dropped for handler in handlers),
        "too many alike": sum(handler.floods.held_back for handler in handlers),
    }


def _handlers() -> Iterator[_Handler]:
    for logger in (logging.getLogger(), *_separated):
        yield from (handler for handler in logger.handlers if isinstance(handler, _Handler))


def last_words(text: str, **details: object) -> None:
    """Log an error, and wait briefly until it is written: a reader that is too slow delays no end."""
    _log.error(text, **details)
    for handler in _handlers():
        handler.flush()


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if not issubclass(kind, SystemExit):
        _log.error("an unhandled error", exc_info=(kind, error, trace))


def term(epoch: int | None) -> None:
    """Set the controller epoch in every later line, of any thread; None when the term is over."""
    _term.clear()
    if epoch is not None:
        _term["epoch"] = epoch


def _complete(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the component and the epoch and hide secrets; the common fields come first."""
    component = str(event.pop("logger", "")).removeprefix("controller.")
    standard = {key: event.pop(key) for key in ("time", "level", "event") if key in event}
    hidden = {key: HIDDEN for key in event if any(word in key.lower() for word in SECRETS)}
    return {**standard, "component": component, **_term, **event, **hidden}


def _tail(*, as_json: bool, is_colored: bool) -> list[Processor]:
    """The last steps. Tracebacks come without the values of local variables, which can be large, and secret."""
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if as_json:
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [
            remove,
            structlog.processors.ExceptionRenderer(tracebacks),
            lines.short(structlog.processors.JSONRenderer(ensure_ascii=False, default=str)),
        ]
    return [
        remove,
        structlog.processors.format_exc_info,
        lines.plain,
        lines.short(
            structlog.dev.ConsoleRenderer(
                colors=is_colored,
                pad_event_to=48,
                timestamp_key="time",
                exception_formatter=structlog.dev.plain_traceback,
            )
        ),
    ]
