"""A running replica follows its edited configuration on SIGHUP, in the same term, and names what needs a restart."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from controller.core.machine import Machine
from controller.core.messages.events import SettingsChanged
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.state.cluster import ClusterState
from controller.lab.zookeeper import zookeeper_client
from controller.runtime import journal
from tests.cluster.replica import Replica, wait_until
from zk_layout.ids import ControllerEpoch

pytestmark = pytest.mark.usefixtures("heard_signals")


def edit(replica: Replica, **settings: object) -> None:
    """The operator changes or adds these, and sends SIGHUP."""
    written = dict(line.split("=", 1) for line in replica.config.read_text().splitlines())
    written |= {key.replace("_", "."): str(value) for key, value in settings.items()}
    replica.config.write_text("".join(f"{key}={value}\n" for key, value in written.items()))
    replica.process.signal(signal.SIGHUP)


def machine(term: journal.Term, state: ClusterState) -> Machine:
    """A machine as a journal says it was made."""
    assert isinstance(term.settings, MachineSettings)
    return Machine(term.settings, ControllerEpoch(term.controller_epoch), SeededRandom(term.seed), state=state)


def changes_in(directory: Path) -> list[MachineSettings]:
    """What a journal has of changed settings."""
    turns = [entry for entry in journal.read(journal.files(directory)) if isinstance(entry, journal.Turn)]
    return [event.settings for turn in turns for event in turn.events if isinstance(event, SettingsChanged)]


def test_an_edited_configuration_counts_in_the_same_term_and_the_rest_is_pending(
    zookeeper: str, tmp_path: Path
) -> None:
    directory = tmp_path / "journal"
    with Replica(zookeeper, tmp_path, journal_dir=directory) as replica:
        replica.await_phase("active")
        epoch = replica.leader()["controller_epoch"]
        assert replica.measure("settings_pending_restart") == 0

        edit(
            replica,
            log_level="debug",
            connections_max_idle_ms=300,
            controlled_shutdown_redundancy=2,
            zookeeper_session_timeout_ms=7000,
        )

        wait_until(lambda: replica.leader().get("settings_pending"), "it named what is pending")
        (pending,) = replica.leader()["settings_pending"]
        assert pending == "zookeeper.session.timeout.ms is 7000 in the configuration; 6000 is in force until a restart"
        assert f"pending: {pending}" in replica.get("/readyz")[1]
        wait_until(lambda: replica.measure("settings_pending_restart") == 1, "the metric showed it")
        with replica.connect() as idle, pytest.raises(ConnectionResetError):
            idle.recv(1)
        wait_until(lambda: changes_in(directory), "the term had heard of it")
        assert [changed.shutdown_redundancy for changed in changes_in(directory)] == [2]
        with zookeeper_client(zookeeper) as client:
            client.create("/admin/delete_topics/nothing")
            wait_until(lambda: [r for r in replica.log() if r["level"] == "debug"], "it logged more")

        edit(replica, log_level="chatty")

        wait_until(lambda: replica.leader().get("failing"), "it refused the rest")
        (failing,) = replica.leader()["failing"]
        assert "log.level = chatty: expected one of debug, info, warning, error" in failing
        assert str(replica.config) in failing
        assert replica.leader()["settings_pending"] == [pending]

        edit(replica, log_level="info", zookeeper_session_timeout_ms=6000)

        wait_until(lambda: replica.leader().get("failing") == [], "it took what was corrected")
        assert replica.leader()["settings_pending"] == []
        assert replica.leader()["controller_epoch"] == epoch
        assert replica.measure("terms_ended_total") == 0
        replica.process.signal(signal.SIGTERM)
        wait_until(lambda: not replica.process.is_alive, "it ended")
    assert list(journal.replay(journal.read(journal.files(directory)), machine)) == []


def test_the_end_of_its_terminal_ends_a_replica_and_a_mere_signal_does_not(zookeeper: str, tmp_path: Path) -> None:
    replica = Replica(zookeeper, tmp_path)
    terminal, inside = pty.openpty()
    with subprocess.Popen(
        ["setsid", "--ctty", *replica.process.argv], stdin=inside, stderr=subprocess.DEVNULL
    ) as process:
        try:
            os.close(inside)
            wait_until(lambda: replica.phase == "active", "it led")
            edit_by_pid(replica, process.pid)
            wait_until(lambda: replica.leader().get("settings_pending"), "it read its configuration")
            os.close(terminal)
            assert process.wait(15) == 0
        finally:
            process.kill()
    with zookeeper_client(zookeeper) as client:
        assert client.exists("/controller") is None


def edit_by_pid(replica: Replica, pid: int) -> None:
    """The same for a process that the test itself has started."""
    replica.config.write_text(f"{replica.config.read_text()}broker.rack=other\n")
    os.kill(pid, signal.SIGHUP)
