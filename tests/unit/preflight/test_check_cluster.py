"""`run --check-cluster` ends, whatever ZooKeeper does meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.commands import check_cluster
from controller.lab.ports import free_port
from controller.preflight.looking import Preflight
from controller.settings import load


class SilentBridge:
    """A session that was opened and gets no more answers."""

    def __init__(self, *_: Any) -> None:
        self.state = None

    async def start(self, *_: object) -> None: ...

    async def stop(self) -> None: ...


async def never(*_: Any) -> None:
    await asyncio.Event().wait()


def test_a_look_that_does_not_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_cluster, "Bridge", SilentBridge)
    monkeypatch.setattr(check_cluster, "LOOK_WITHIN_S", 0.1)
    monkeypatch.setattr(Preflight, "look", never)
    port = free_port()
    settings = load(None, ["zookeeper.connect=zk:2181", "broker.id=901", f"listeners=PLAINTEXT://127.0.0.1:{port}"], {})

    assert check_cluster.run(settings, is_new_cluster=False, as_json=False) == check_cluster.UNREACHABLE
    assert "did not finish within 0.1 s" in capsys.readouterr().err
