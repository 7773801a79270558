"""Every listener to ZooKeeper is called, whatever happens in the others."""

from __future__ import annotations

from structlog.testing import capture_logs

from tests.simulation.zookeeper import SetData
from tests.unit.zk.simulated import EPOCH, Ensemble, Process


def fail(_: object) -> None:
    raise ZeroDivisionError


def test_an_error_of_one_listener_keeps_no_other_from_hearing_what_follows() -> None:
    ensemble = Ensemble()
    process = Process(ensemble)
    heard: list[object] = []
    process.bridge.watch_listeners += [fail, heard.append]
    process.do(process.bridge.get(EPOCH, watch=True))

    with capture_logs() as said:
        ensemble.write(SetData(EPOCH, b"2"))
        ensemble.until(lambda: heard)
        assert process.do(process.bridge.get(EPOCH))[0] is not None

    assert len(heard) == 1
    assert [line["event"] for line in said] == ["a listener to ZooKeeper has failed"]
    process.end()
