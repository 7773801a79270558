"""How long is a quorum of KRaft controllers without an active one when that is killed?"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from controller.connections.broker import Broken
from controller.core.messages.errors import ErrorCode
from controller.lab.asking import ask_raw
from controller.lab.ports import free_ports
from controller.lab.wire.to_controller import answer_cursor
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader, encode_request_header, framed
from controller.wire.schema import encode_entity, request_schema
from tests.benchmarks.contenders import KRAFT, KRAFT_VERSION, PRODUCTION_JAVA
from tests.benchmarks.machine import peak_resident_mib, usage, wait_until_quiet
from tests.equipment.kraft import kraft_controller

_OLDEST_JAVA = 17
_CLUSTER_ID = "a2Fma2EtemstYmVuY2htYQ"
_VOTERS = 3
_SETTLE_S = 10.0
_STARTED_WITHIN_S = 180.0
_BROKER, _SET = 4, 0  # kinds of resources and of changes, as in Kafka's IncrementalAlterConfigs
_ANSWER_WITHIN_S = 0.5
_LEAST_BYTES = 6  # of an answer about one resource
_PAUSE_S = 0.002


class QuorumSucceeded(Struct, frozen=True):
    """One SIGKILL of an active controller.

    Units:
        Seconds since the signal; MiB of the next active one; its processor seconds.

    Shape:
        `decides_s`: another controller has answered a change of a setting, which the quorum has committed.
    """

    contender: str
    decides_s: float
    peak_mib: float
    used_s: dict[str, float]
    others_s: float
    measured_s: float
    quiet_before: float


class _Controller:
    """One voter, without a broker."""

    def __init__(self, node_id: int, port: int, voters: str, directory: Path) -> None:
        self.port = port
        self.process = kraft_controller(
            KRAFT_VERSION,
            _CLUSTER_ID,
            node_id,
            port,
            {"controller.quorum.voters": voters},
            directory,
            ("-Xmx1g", *PRODUCTION_JAVA),
            _OLDEST_JAVA,
        )

    def accepts_a_change(self) -> bool:
        """Ask it to change a setting; only the active one does."""
        header = RequestHeader(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 1, "benchmark")
        schema = request_schema(header.api_key, header.api_version)
        config = schema.make("AlterableConfig", name="message.max.bytes", config_operation=_SET, value="1048588")
        resource = schema.make("AlterConfigsResource", resource_type=_BROKER, resource_name="", configs=(config,))
        entity = schema.make("IncrementalAlterConfigsRequest", resources=(resource,), validate_only=False)
        try:
            (frame,) = ask_raw(
                f"127.0.0.1:{self.port}",
                framed(encode_request_header(header), encode_entity(entity)),
                timeout_s=_ANSWER_WITHIN_S,
            )
        except Broken:
            return False
        cursor = answer_cursor(header, frame)
        cursor.int32("throttle_time_ms")
        assert cursor.array_length("responses", _LEAST_BYTES) == 1
        return cursor.int16("error_code") == ErrorCode.NONE


@contextmanager
def quorum() -> Iterator[list[_Controller]]:
    """Three controllers with Kafka's defaults, started."""
    directory = Path(tempfile.mkdtemp(prefix="kafka-zk-controller-bench-"))
    ports = free_ports(_VOTERS)
    voters = ",".join(f"{3000 + nth}@127.0.0.1:{port}" for nth, port in enumerate(ports))
    controllers: list[_Controller] = []
    try:
        for nth, port in enumerate(ports):
            controllers.append(_Controller(3000 + nth, port, voters, directory / str(nth)))
        for controller in controllers:
            controller.process.start()
        yield controllers
    finally:
        for controller in controllers:
            controller.process.kill()
        shutil.rmtree(directory, ignore_errors=True)


def _active(controllers: list[_Controller], within_s: float) -> _Controller:
    """The first that accepts a change; they are asked in turn.

    Raises:
        TimeoutError: none does.
    """
    deadline = time.monotonic() + within_s
    for controller in itertools.cycle(controllers):
        if controller.accepts_a_change():
            return controller
        if time.monotonic() > deadline:
            raise TimeoutError(f"no controller is active:\n{controllers[0].process.tail(40)}")
        time.sleep(_PAUSE_S)
    raise AssertionError("a cycle does not end")


def measure(patience_s: float) -> QuorumSucceeded:
    """Kill the active controller of a quorum that has no brokers and no partitions.

    Raises:
        JarsUnavailable: this Kafka cannot be had.
        TimeoutError: no other became active.
    """
    with quorum() as controllers:
        active = _active(controllers, _STARTED_WITHIN_S)
        time.sleep(_SETTLE_S)
        quiet = wait_until_quiet(patience_s)
        active = _active(controllers, _STARTED_WITHIN_S)
        left = [controller for controller in controllers if controller is not active]
        processes = {str(c.port): c.process.pid or 0 for c in left} | {"measuring": os.getpid()}
        before = usage(processes)
        killed_at = time.time()
        active.process.signal(signal.SIGKILL)
        successor = _active(left, _STARTED_WITHIN_S)
        written_at = time.time()
        spent = usage(processes).since(before)
        return QuorumSucceeded(
            contender=KRAFT,
            decides_s=round(written_at - killed_at, 3),
            peak_mib=round(peak_resident_mib(processes[str(successor.port)]), 1),
            used_s={"contender": round(spent.by_process[str(successor.port)], 2)},
            others_s=round(spent.others_s, 2),
            measured_s=round(spent.at, 3),
            quiet_before=round(quiet, 2),
        )
