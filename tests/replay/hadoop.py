"""A real HDFS: a name node and two data nodes of Hadoop's, on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, run

from controller.lab.jars import Module, class_path
from controller.lab.java import SMALL_SERVER, find_java
from controller.lab.ports import free_port
from controller.lab.process import Process
from tests.equipment.open_port import is_listening

VERSION = "3.5.0"
_SERVERS = "org.apache.hadoop.hdfs.server"


def _modules() -> list[Module]:
    return [
        Module("org.apache.hadoop", "hadoop-client-minicluster", VERSION),
        Module("org.slf4j", "slf4j-simple", "1.7.36"),  # without one they are mute
    ]


def _options(settings: dict[str, object]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]


@contextmanager
def hdfs(home: Path) -> Iterator[str]:
    """Where it is; it ends with the context.

    Raises:
        JarsUnavailable, JavaUnavailable: it cannot be had here.
    """
    jars, java = class_path(f"hadoop-{VERSION}", VERSION, _modules), find_java()
    port = free_port()
    place = f"hdfs://127.0.0.1:{port}"
    runs: list[str | Path] = [java.executable, *SMALL_SERVER, "-cp", ":".join(map(str, jars))]
    names = [
        f"{_SERVERS}.namenode.NameNode",
        *_options({"fs.defaultFS": place, "hadoop.tmp.dir": home / "names", **_anywhere("namenode.http-address")}),
        # A file may be closed before both have told of it: to wait for that takes half a second each time.
        *_options({"dfs.replication": 2, "dfs.namenode.file.close.num-committed-allowed": 1}),
    ]
    addresses = _anywhere("datanode.address", "datanode.http.address", "datanode.ipc.address")
    run([*runs, *names, "-format", "-nonInteractive"], check=True, stdout=DEVNULL, stderr=DEVNULL)
    servers = [Process("the name node", [*runs, *names], home / "names.log")]
    for number in range(2):
        options = _options({"fs.defaultFS": place, "hadoop.tmp.dir": home / f"data-{number}", **addresses})
        argv = [*runs, f"{_SERVERS}.datanode.DataNode", *options]
        servers.append(Process(f"data node {number}", argv, home / f"data-{number}.log"))
    try:
        for server in servers:
            server.start()
        servers[0].wait_until(lambda: is_listening(port), 60, waiting_for="it listened")
        for server in servers[1:]:
            server.wait_until(partial(_is_known, server), 60, waiting_for="the name node knew it")
        yield place
    finally:
        for server in servers:
            server.kill()


def _anywhere(*names: str) -> dict[str, object]:
    return {f"dfs.{name}": "127.0.0.1:0" for name in names}


def _is_known(data: Process) -> bool:
    return b"successfully registered with NN" in data.output_since_start()
