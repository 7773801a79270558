"""Is our image small and closed, does it lead brokers by host name, and does another replica take over from it?"""

from __future__ import annotations

import json
import stat
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.lab.errors import LabError
from controller.lab.jars import kafka_class_path
from tests.cluster.replica import holder, wait_until
from tests.conformance.adapter_world import someone
from tests.containers import engine
from tests.containers.engine import CLIENT_PORT, Containers

VERSION = "3.9.1"
MOST_BYTES = 150_000_000
# For a reader: how much of the image is what.
SHOWN = engine.TOP / ".cache" / "image.txt"
SET_ID = stat.S_ISUID | stat.S_ISGID


@pytest.fixture(scope="module")
def images() -> Iterator[tuple[str, str]]:
    """The base, and our image on it."""
    with engine.base_image() as base, engine.our_image(base) as ours:
        yield base, ours


@pytest.fixture
def containers(tmp_path: Path, images: tuple[str, str]) -> Iterator[tuple[Containers, str]]:
    """A network, and our image."""
    try:
        kafka_class_path(VERSION)
    except LabError as error:
        pytest.skip(str(error))
    base, ours = images
    started = Containers(tmp_path, base)
    try:
        yield started, ours
    finally:
        started.close()


def state(zookeeper: KazooClient, topic: str) -> dict[str, object]:
    path = f"/brokers/topics/{topic}/partitions/0/state"
    return dict(json.loads(zookeeper.get(path)[0])) if zookeeper.exists(path) else {}


def epoch(zookeeper: KazooClient) -> int:
    return int(zookeeper.get("/controller_epoch")[0])


def part_of(name: str) -> str:
    """What a file of the image belongs to."""
    folders = name.split("/")
    if "site-packages" in folders:
        inside = folders[folders.index("site-packages") + 1]
        return "the program" if inside in {"controller", "metrics", "zk_layout"} else inside
    return "Python" if "python3" in name else "libraries and settings of the base"


def test_it_is_small_and_has_nothing_to_break_in_with(images: tuple[str, str]) -> None:
    files = engine.files(images[1])

    sizes = Counter[str]()
    for file in filter(tarfile.TarInfo.isfile, files):
        sizes[part_of(file.name)] += file.size
    shown = "\n".join(f"{size / 1e6:6.1f} MB  {part}" for part, size in sizes.most_common())
    total = sum(sizes.values())
    SHOWN.write_text(f"{shown}\n{total / 1e6:6.1f} MB\n", "utf-8")
    assert total <= MOST_BYTES, shown
    assert sizes["the program"] > 0
    assert sizes["Python"] > 0
    # A shell, pip and a package manager are what an intruder would use first.
    programs = {Path(file.name).name for file in files if file.mode & 0o111 and not file.isdir()}
    assert programs & {"sh", "bash", "dash", "apt-get", "dpkg", "perl", "pip", "pip3"} == set()
    assert [file.name for file in files if file.isfile() and file.mode & SET_ID] == []
    assert [file.name for file in files if file.isfile() and (file.uid, file.gid) != (0, 0)] == []
    assert [file.name for file in files if file.mode & 0o002 and not file.issym() and file.name != "tmp"] == []


@pytest.mark.timeout(300)
def test_the_standby_takes_over_from_a_killed_container_and_moves_a_partition(
    containers: tuple[Containers, str],
) -> None:
    started, ours = containers
    server = started.zookeeper("zookeeper")
    with someone(engine.address(server, CLIENT_PORT)) as zookeeper:
        for number in (1, 2):
            started.broker(f"broker{number}", number, "zookeeper", VERSION)
        wait_until(
            lambda: zookeeper.exists("/brokers/ids/1") and zookeeper.exists("/brokers/ids/2"), "both registered", 120
        )
        leading = started.controller("controller901", 901, "zookeeper", ours)
        engine.await_phase(leading, "active")
        standby = started.controller("controller902", 902, "zookeeper", ours)
        engine.await_phase(standby, "standby")
        zookeeper.create("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1]}}')
        wait_until(lambda: state(zookeeper, "orders").get("leader") == 1, "broker 1 led orders")
        wait_until(lambda: engine.health(leading) == engine.health(standby) == "healthy", "both were healthy", 60)
        before = epoch(zookeeper)

        leading.get_wrapped_container().kill("SIGKILL")
        engine.await_phase(standby, "active")

        # Broker 2 fetches from broker 1, and broker 1 tells the new controller, each by the other's name.
        move = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2]}]}
        zookeeper.create("/admin/reassign_partitions", json.dumps(move).encode())
        wait_until(lambda: not zookeeper.exists("/admin/reassign_partitions"), "the move was over", 60)
        moved = state(zookeeper, "orders")
        # A broker's own controller may have led for a moment, if the machine was busy when the session ended.
        assert (moved["leader"], moved["isr"], moved["controller_epoch"]) == (2, [2], epoch(zookeeper))
        assert (holder(zookeeper), epoch(zookeeper) > before) == (902, True)

        # What the Dockerfile and docs/operations.md say to run in a container, and to end it.
        asked = standby.exec(["kafka-zk-controller", "status"])
        assert (asked.exit_code, b"902" in asked.output) == (0, True), asked.output
        standby.get_wrapped_container().stop(timeout=30)
        assert standby.get_wrapped_container().wait()["StatusCode"] == 0
        wait_until(lambda: holder(zookeeper) in {1, 2}, "a broker's own controller led", 60)
