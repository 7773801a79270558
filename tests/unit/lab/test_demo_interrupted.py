"""A signal ends the demo wherever it arrives."""

from __future__ import annotations

import asyncio
import signal

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KeeperState

from controller.demo import story
from controller.demo.report import Report


def test_an_event_loop_in_which_a_signal_arrives_does_not_swallow_it() -> None:
    async def busy() -> None:
        asyncio.get_running_loop().call_soon(story._Interruption(), signal.SIGINT, None)
        await asyncio.sleep(5)

    with pytest.raises(story._Interrupted) as ended:
        asyncio.run(busy())

    assert ended.value.code == story.INTERRUPTED


class Waking:
    """The socket by which kazoo wakes its connection; a signal arrives at this moment."""

    def send(self, _: bytes) -> None:
        signal.raise_signal(signal.SIGINT)


def write_while_a_signal_arrives(*_: object) -> tuple[Report, str]:
    client = KazooClient()
    client._state = KeeperState.CONNECTED
    client._connection._write_sock = Waking()
    client.create("/topic")
    raise AssertionError("kazoo has not reported the signal as an error of its own")


def test_a_signal_that_kazoo_takes_for_a_closed_connection_ends_it_as_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(story, "_tell", write_while_a_signal_arrives)

    assert story.main() == story.INTERRUPTED
    assert "interrupted; everything is stopped" in capsys.readouterr().out


def test_a_signal_that_is_swallowed_ends_it_as_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def swallow(*_: object) -> tuple[Report, str]:
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException:  # as a library might
            return Report(kafka_version="3.9.1", brokers="none", partitions=2), ""
        raise AssertionError("no signal arrived")

    monkeypatch.setattr(story, "_tell", swallow)

    assert story.main() == story.INTERRUPTED
