"""Which pause does a session see?"""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.candidacy.events import HolderSeen
from controller.zk.session import Session
from tests.simulation.zookeeper import MakeNode, Permission, RemoveNode
from tests.unit.zk.simulated import Ensemble, Process
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes.pause import BY_HAND, Pause, PauseAddress

PAUSED = PauseAddress.path
ANN = Pause("ann@host", 1_700_000_000_000, "new disks")


@pytest.mark.parametrize(
    ("data", "is_readable", "known"),
    [(catalog.encode(ANN), True, ANN), (b"by hand", True, BY_HAND), (b"", True, BY_HAND), (b"{}", False, BY_HAND)],
)
def test_a_pause_is_seen_whatever_its_znode_holds_and_so_is_its_end(
    data: bytes, known: Pause, *, is_readable: bool
) -> None:
    ensemble = Ensemble()
    process = Process(ensemble)
    ensemble.zookeeper.make_path("/kafka_zk_controller")
    saw: list[Any] = []
    session = Session(process.bridge, saw.append, BrokerId(901))

    async def start() -> None:
        session.start()

    process.do(start())
    ensemble.until(lambda: [seen for seen in saw if isinstance(seen, HolderSeen)])
    assert saw[-1].pause is None

    if not is_readable:
        ensemble.zookeeper.acls[PAUSED] = Permission.ALL & ~Permission.READ
    ensemble.write(MakeNode(PAUSED, data))
    ensemble.until(lambda: saw[-1].pause == known)

    ensemble.write(RemoveNode(PAUSED))
    ensemble.until(lambda: saw[-1].pause is None)
    process.end()
