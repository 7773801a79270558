"""A replica announces itself, and says so when another process has announced itself under the same id."""

from __future__ import annotations

import pytest

from controller.http.status import Status
from controller.process.replica_znode import SAME_ID_AFTER_S, ReplicaZnode
from controller.runtime.supervision import Troubles
from tests.unit.http.serving import STANDBY
from tests.unit.zk.simulated import Ensemble, Process
from zk_layout.ids import BrokerId
from zk_layout.znodes import replicas
from zk_layout.znodes.replicas import ReplicaAddress

PATH = ReplicaAddress(BrokerId(901)).path


class Standby:
    """A process that stands by and announces itself as 901."""

    def __init__(self, ensemble: Ensemble, http_port: int) -> None:
        self.troubles = Troubles()
        self.process = Process(ensemble)
        self.status: Status = STANDBY
        http = ("127.0.0.1", http_port)
        znode = ReplicaZnode(
            BrokerId(901), lambda: self.process.bridge, lambda: self.status, http, troubles=self.troubles
        )
        self.process._loop.start(znode.keep())

    def leaves(self) -> None:
        """It closes its session."""
        self.process.do(self.process.bridge.stop())
        self.process.end()


@pytest.fixture
def ensemble() -> Ensemble:
    """ZooKeeper, where replicas have been before."""
    found = Ensemble()
    found.zookeeper.make_path(replicas.ROOT)
    return found


def goes_on(ensemble: Ensemble, for_s: float) -> None:
    """Let time pass."""
    clock = ensemble.clock
    until = clock.now + for_s
    clock.after(for_s, lambda: None)
    while clock.now < until and clock.step():
        pass


def announced(ensemble: Ensemble) -> str:
    """The HTTP port that is shown for 901; empty if there is none."""
    node = ensemble.zookeeper.nodes.get(PATH)
    return replicas.decode(node.data).http if node is not None else ""


def test_a_standby_with_the_id_of_another_says_so_until_that_one_is_gone(ensemble: Ensemble) -> None:
    first = Standby(ensemble, 9640)
    goes_on(ensemble, 3.0)
    second = Standby(ensemble, 9641)

    goes_on(ensemble, SAME_ID_AFTER_S / 2)
    assert second.troubles.now() == (), "it might be its own former session"
    goes_on(ensemble, SAME_ID_AFTER_S)

    (said,) = second.troubles.now()
    assert said.startswith("announcing: another process has the same broker.id: ")
    assert "with HTTP port 127.0.0.1:9640" in said
    assert (first.troubles.now(), announced(ensemble)) == ((), "127.0.0.1:9640")
    first.leaves()
    goes_on(ensemble, 30.0)
    assert (second.troubles.now(), announced(ensemble)) == ((), "127.0.0.1:9641")


def test_a_former_session_that_ends_in_time_is_no_news(ensemble: Ensemble) -> None:
    former = Standby(ensemble, 9640)
    goes_on(ensemble, 3.0)
    restarted = Standby(ensemble, 9640)

    goes_on(ensemble, SAME_ID_AFTER_S / 2)
    former.leaves()
    goes_on(ensemble, 2 * SAME_ID_AFTER_S)

    assert restarted.troubles.now() == ()
    assert announced(ensemble) == "127.0.0.1:9640"
