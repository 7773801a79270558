"""How soon are the health endpoints answered while the event loop has much to do, or a term's state is dropped?"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from statistics import median, quantiles
from typing import Self

from msgspec import Struct

from controller.lab.ports import free_port
from tests.benchmarks.broker_failing import FAILING
from tests.benchmarks.contenders import Ours
from tests.benchmarks.machine import wait_until_quiet
from tests.benchmarks.stage import SETTLE_S, Stage

_PATHS = ("/livez", "/readyz")
_EVERY_S = 0.005
_SILENCE_S = 3.0
_DROPPED_WITHIN_S = 10.0


class Probed(Struct, frozen=True):
    """The probes during one phase.

    Units:
        Milliseconds; `took_s` in seconds.
    """

    phase: str
    took_s: float
    count: int
    failed: int
    median_ms: float
    p99_ms: float
    longest_ms: float


class Probes:
    """Asks for both, one after the other, until the context is left."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began = 0.0
        self.waits: list[float] = []
        self.failed = 0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def of(self, phase: str) -> Probed:
        """What was seen."""
        waits_ms = [wait * 1000 for wait in self.waits]
        return Probed(
            phase,
            round(time.monotonic() - self._began, 1),
            len(waits_ms),
            self.failed,
            round(median(waits_ms), 1),
            round(quantiles(waits_ms, n=100)[-1], 1),
            round(max(waits_ms), 1),
        )

    def _run(self) -> None:
        while not self._is_over.is_set():
            with (
                suppress(OSError, http.client.HTTPException),
                closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)) as client,
            ):
                self._ask_until_over(client)
                return
            self.failed += 1

    def _ask_until_over(self, client: http.client.HTTPConnection) -> None:
        while not self._is_over.is_set():
            for path in _PATHS:
                began = time.monotonic()
                client.request("GET", path)
                client.getresponse().read()
                self.waits.append(time.monotonic() - began)
            self._is_over.wait(_EVERY_S)


def measure(stage: Stage, *, timeout_s: float, patience_s: float) -> Iterator[Probed]:
    """Let our process win, lose a broker, and be replaced; probe it all the while.

    Raises:
        TimeoutError: it did not finish.
    """
    port = free_port()
    ours = Ours(stage.server.connect, stage.directory / "probed", settings={"http.port": port})
    stage.occupy()
    ours.start()
    try:
        time.sleep(SETTLE_S)
        wait_until_quiet(patience_s)
        stage.fleet.reset()
        with Probes(port) as probes:
            stage.vacate_for(ours)
            stage.wait_until_silent(ours, _SILENCE_S, timeout_s)
        yield probes.of("a cold take-over")
        stage.fleet.reset()
        with Probes(port) as probes:
            stage.fleet.fail(FAILING)
            stage.wait_until_silent(ours, _SILENCE_S, timeout_s)
        yield probes.of("a broker fails")
        with Probes(port) as probes:
            stage.replace()
            time.sleep(_DROPPED_WITHIN_S)
        yield probes.of("its term ends, and the state is dropped")
    finally:
        ours.process.stop(30)
