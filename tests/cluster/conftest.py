"""Which real clusters do these tests share? One per Kafka version, started at first use.

A test may kill and restart brokers; those left dead are started again. Each test uses its own topics.
"""

import signal
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.jars_ahead import download_beside
from tests.cluster.walk import VERSIONS

_shared: list[LocalCluster] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """If many versions will run, download their jars beside the other tests."""
    params = (item.callspec.params for item in session.items if hasattr(item, "callspec"))
    if (
        versions := [p["version"] for p in params if p.get("version") in VERSIONS]
    ) and not session.config.option.collectonly:
        download_beside(sorted(versions))


@pytest.fixture(scope="session")
def cluster_3_9() -> Iterator[LocalCluster]:
    """ZooKeeper and brokers 1, 2, 3 of Kafka 3.9.1."""
    yield from _cluster("3.9.1")


@pytest.fixture(scope="session")
def cluster_2_8() -> Iterator[LocalCluster]:
    """ZooKeeper and brokers 1, 2, 3 of Kafka 2.8.2."""
    yield from _cluster("2.8.2")


@pytest.fixture(scope="session")
def cluster_2_4() -> Iterator[LocalCluster]:
    """ZooKeeper and brokers 1, 2, 3 of Kafka 2.4.1, below the chroot `/kafka`."""
    yield from _cluster("2.4.1", chroot="/kafka")


def _cluster(version: str, chroot: str = "") -> Iterator[LocalCluster]:
    try:
        cluster = LocalCluster(ClusterSettings(version=version, chroot=chroot))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        _shared.append(cluster)
        yield cluster
        _shared.remove(cluster)


@pytest.fixture(autouse=True)
def _each_finds_all_brokers_running() -> Iterator[None]:
    """A failure in one test must not fail the next ones."""
    yield
    for cluster in _shared:
        cluster.start_brokers([number for number, broker in cluster.brokers.items() if not broker.process.is_alive])


@pytest.fixture
def heard_signals() -> Iterator[None]:
    """Restore signals that nohup, or a background job, has ignored, also for child processes."""
    ignored = [n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT) if signal.getsignal(n) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> LocalCluster:
    """The shared cluster of 3.9, or the one that the test is parametrised with: see `OLD_AND_NEW`."""
    found: LocalCluster = request.getfixturevalue(f"cluster_{getattr(request, 'param', '3_9')}")
    return found


@pytest.fixture
def zk(cluster: LocalCluster) -> Iterator[KazooClient]:
    """A separate client of the cluster's ZooKeeper."""
    with zookeeper_client(cluster.zookeeper_connect) as client:
        yield client
