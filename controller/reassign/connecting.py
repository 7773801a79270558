"""How is the cluster reached that the options name?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from controller.reassign.answer import Answer
from controller.reassign.client_properties import ClientSettings, read_client_properties
from controller.reassign.cluster import Cluster
from controller.reassign.controller_config import ControllerConfig
from controller.reassign.input_file import InputFile
from controller.reassign.refusals import Stopped

if TYPE_CHECKING:
    from controller.reassign.zookeeper_cluster import ZooKeeperCluster

SILENT_S = 2.0


class Connection(Struct, frozen=True):
    """What the options say of it; checked.

    Units:
        `timeout_ms` replaces default.api.timeout.ms.
    """

    bootstrap_server: str | None = None
    config: ControllerConfig | None = None
    command_config: InputFile | None = None
    zookeeper: str | None = None
    timeout_ms: int | None = None

    @property
    def is_through_brokers(self) -> bool:
        """Whether brokers are asked, rather than ZooKeeper."""
        return self.bootstrap_server is not None or self.config is not None


def connect(to: Connection, answer: Answer) -> Cluster:
    """Connect.

    Raises:
        Stopped: it cannot be reached, or not like this.
    """
    settings = ClientSettings()
    if to.command_config is not None:
        settings = read_client_properties(to.command_config)
        if settings.ignored:
            answer.warn(f"ignored, because they do not concern this tool: {', '.join(settings.ignored)}")
    if to.timeout_ms is not None:
        settings = structs.replace(settings, timeout_ms=to.timeout_ms)
    if not to.is_through_brokers:
        from controller.reassign import zookeeper_cluster

        answer.warn(zookeeper_cluster.DEPRECATED)
        assert to.zookeeper is not None, "demand_sound"
        with _reporting_silence(to.zookeeper, settings.timeout_ms, answer):
            return zookeeper_cluster.ZooKeeperCluster(to.zookeeper, settings.timeout_ms)
    from controller.reassign import kafka_cluster

    if to.zookeeper is not None:
        from controller.reassign.zookeeper_cluster import IGNORED

        answer.warn(IGNORED)
    servers = _bootstrap_servers(to, settings, answer)
    with _reporting_silence(servers, settings.timeout_ms, answer):
        return kafka_cluster.KafkaCluster(servers, settings)


def connect_zookeeper(to: Connection, answer: Answer) -> tuple[ZooKeeperCluster, str]:
    """Connect to the cluster's ZooKeeper; also returns the brokers to ask, by default those registered there.

    Raises:
        Stopped: it cannot be reached, or not like this.
    """
    from controller.reassign.zookeeper_cluster import ZooKeeperCluster

    settings = ClientSettings() if to.command_config is None else read_client_properties(to.command_config)
    timeout_ms = settings.timeout_ms if to.timeout_ms is None else to.timeout_ms
    connect_string, security = to.config.zookeeper if to.config is not None else (to.zookeeper or "", None)
    with _reporting_silence(connect_string, timeout_ms, answer):
        zookeeper = ZooKeeperCluster(connect_string, timeout_ms, security)
    try:
        return zookeeper, to.bootstrap_server or zookeeper.bootstrap_servers(settings.security_protocol)
    except Stopped:
        zookeeper.close()
        raise


def _bootstrap_servers(to: Connection, settings: ClientSettings, answer: Answer) -> str:
    if to.config is None:
        assert to.bootstrap_server is not None, "demand_sound"
        return to.bootstrap_server
    from controller.reassign.zookeeper_cluster import ZooKeeperCluster

    connect_string, security = to.config.zookeeper
    with _reporting_silence(connect_string, settings.timeout_ms, answer):
        zookeeper = ZooKeeperCluster(connect_string, settings.timeout_ms, security)
    try:
        return zookeeper.bootstrap_servers(settings.security_protocol)
    finally:
        zookeeper.close()


@contextmanager
def _reporting_silence(address: str, timeout_ms: int, answer: Answer) -> Iterator[None]:
    """Tell the user early if no server answers: one who mistyped an address need not wait for the timeout."""
    word = f"no broker has answered at {address} yet; trying for {timeout_ms / 1000:g} s"
    timer = threading.Timer(SILENT_S, answer.warn, (word,))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
