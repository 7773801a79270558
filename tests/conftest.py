"""What do all tests share? A mark per folder, and a real ZooKeeper on demand."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from controller.lab.errors import LabError
from controller.lab.zookeeper import ZooKeeperServer, zookeeper_client
from tests.equipment.kdc import Kdc, KerberosUnavailable

TESTS = Path(__file__).parent
# Of two workers that get a file at a time, one would wait for such a file at the end.
LONGEST = frozenset(
    {
        "test_failover_ten_moments.py",
        "test_secured_listeners.py",
        "test_versions.py",
        "test_image.py",
        "test_rolling_upgrade.py",
        "test_short_script.py",
    }
)
MARKED_FOLDERS = frozenset({"chaos", "simulation", "conformance", "cluster", "containers", "lab", "replay"})

# On a small machine an example's duration depends on other processes more than on the code.
hypothesis.settings.register_profile("project", deadline=None, max_examples=60)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2000)  # --hypothesis-profile=thorough
hypothesis.settings.load_profile("project")

_chroots = itertools.count(1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its folder's name, so that `-m` selects by folder; the files that take minutes come first."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        if item.path.is_relative_to(TESTS) and (folder := item.path.relative_to(TESTS).parts[0]) in MARKED_FOLDERS:
            item.add_marker(folder)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Report failures at once: the whole run takes half an hour, and its tracebacks come at the end."""
    if report.failed:
        said = str(getattr(report.longrepr, "reprcrash", "") or report.longrepr).splitlines()
        print(f"\n{report.when} of {report.nodeid} failed: {' '.join(said[:5])[:500]}")  # noqa: T201


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One real ZooKeeper server for all tests that do not stop it."""
    try:
        server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    except LabError as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def zookeeper(zookeeper_server: ZooKeeperServer) -> Iterator[str]:
    """The connect string of a real ZooKeeper with a new, empty chroot."""
    chroot = f"/test-{next(_chroots)}"
    with zookeeper_client(zookeeper_server.connect) as client:
        client.create(chroot)
        yield zookeeper_server.connect + chroot
        client.delete(chroot, recursive=True)


@pytest.fixture
def kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kdc]:
    """The only Kerberos server of this process and its children."""
    try:
        server = Kdc(tmp_path / "kdc")
    except KerberosUnavailable as error:
        pytest.skip(str(error))
    monkeypatch.setenv("KRB5_CONFIG", str(server.krb5_conf))
    monkeypatch.setenv("KRB5RCACHENAME", f"file2:{tmp_path / 'replays'}")
    with server:
        yield server
