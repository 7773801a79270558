"""Which of two replicas leads, and how long does the change take when it is killed?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from controller.demo.replicas import Replica, ReplicaSettings, total
from controller.demo.waiting import wait_for
from controller.demo.znodes import Znodes
from controller.lab.errors import LabError

REPLICA_IDS = (901, 902)
_FIGURES = {
    "elections won": "elections_won_total",
    "loading took (s)": "term_loading_seconds",
    "moves begun, or found under way": "reassignments_started_total",
    "moves ended": "reassignment_seconds_count",
    "ZooKeeper transactions": "zookeeper_transactions_total",
    "commands to brokers": "broker_commands_total",
    "requests answered": "requests_total",
}


class Change(Struct, frozen=True):
    """A change of the leader.

    Units:
        Both in seconds since the beginning: until the claim was seen, until the first command was acknowledged.
    """

    leader: Replica
    claimed_s: float
    commanding_s: float


class Pair:
    """Two replicas of the daemon beside one cluster."""

    def __init__(
        self,
        znodes: Znodes,
        zookeeper_connect: str,
        inter_broker_protocol: str,
        directory: Path,
        *,
        outlives_us: bool = False,
    ) -> None:
        self._znodes = znodes
        self.members: Sequence[Replica] = [
            Replica(
                ReplicaSettings(replica_id, zookeeper_connect, inter_broker_protocol),
                directory,
                outlives_us=outlives_us,
            )
            for replica_id in REPLICA_IDS
        ]
        self.last_figures: dict[int, dict[str, float]] = {}

    def start(self) -> Change:
        """Start both, and wait until one commands the brokers.

        Raises:
            ServerFailed: a replica ended.
            LabError: no replica came to lead.
        """
        began = time.monotonic()
        for replica in self.members:
            replica.process.start()
        return self.wait_for_leader(began)

    @property
    def leader(self) -> Replica | None:
        """The one that holds `/controller`, if one of them does."""
        claim = self._znodes.controller()
        found = [r for r in self.members if claim is not None and claim.is_ours and r.replica_id == claim.broker]
        return found[0] if found else None

    def wait_for_leader(self, began: float, other_than: Replica | None = None, timeout_s: float = 180.0) -> Change:
        """Wait until a replica other than this one holds `/controller` and a broker has obeyed it.

        Raises:
            LabError: no replica came to lead.
        """
        wait_for(lambda: self._successor_of(other_than), "one of ours holding /controller", timeout_s=timeout_s)
        claimed = time.monotonic()
        leader = wait_for(lambda: self._commanding(other_than), "a broker obeying our controller", timeout_s=timeout_s)
        return Change(leader, claimed - began, time.monotonic() - began)

    def kill(self, replica: Replica) -> float:
        """Kill a replica, as a crash does, after a last look at its figures; return the time."""
        self.look_at_figures()
        replica.process.kill()
        return time.monotonic()

    def look_at_figures(self) -> None:
        """Record the present counts of the running replicas."""
        for replica in self.members:
            if figures := replica.figures():
                self.last_figures[replica.replica_id] = figures

    def figures_for_people(self) -> dict[str, dict[str, float]]:
        """The main counts of each replica, as last seen: of a killed one, just before."""
        return {
            self._name(replica_id): {name: round(total(figures, key), 3) for name, key in _FIGURES.items()}
            for replica_id, figures in self.last_figures.items()
        }

    def _name(self, replica_id: int) -> str:
        was_killed = any(r.replica_id == replica_id and (r.process.exit_code or 0) < 0 for r in self.members)
        return f"{replica_id} (killed)" if was_killed else str(replica_id)

    def stop(self) -> dict[int, int | None]:
        """Stop the running replicas cleanly; return their exit codes."""
        running = [replica for replica in self.members if replica.process.is_alive]
        with ThreadPoolExecutor(max_workers=len(self.members)) as together:
            for replica in running:
                together.submit(replica.process.stop)
        return {replica.replica_id: replica.process.exit_code for replica in running}

    def end(self) -> None:
        """Kill both at once."""
        for replica in self.members:
            replica.process.kill()

    def _successor_of(self, other_than: Replica | None) -> Replica | None:
        ended = [r for r in self.members if r is not other_than and not r.process.is_alive]
        if ended:
            raise LabError(f"{ended[0].process.name} ended:\n{ended[0].process.tail()}")
        leader = self.leader
        return None if leader is other_than else leader

    def _commanding(self, other_than: Replica | None) -> Replica | None:
        leader = self._successor_of(other_than)
        if leader is None or not total(leader.figures(), "broker_command_seconds_count"):
            return None
        return leader
