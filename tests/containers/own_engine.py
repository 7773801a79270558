"""How does a container engine of our own run here? dockerd, in namespaces, a directory and on a socket of its own.

`make engine` installs it, and makes the one image that it has: a small Debian with Python.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import docker
from docker.errors import DockerException

from controller.lab.errors import LabError, ServerFailed
from controller.lab.process import Process

BASE_FILE: Final = Path(__file__).parents[2] / ".cache/engine/base.tar"
BASE_IMAGE: Final = "debian-with-python:test"
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
# The second copies whole images: slow, but it works on any file system.
_STORAGE_DRIVERS = ("overlay2", "vfs")
# Its processes and mounts end with it, even if it is killed.
_IN_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# The machine's firewall and forwarding stay as they are.
_LEAVING_ALONE = ("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none")
# How pip reaches its packages from here.
_NETWORK = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class EngineUnavailable(LabError):
    """This machine cannot run a container engine; the text says why."""


@contextmanager
def own_engine() -> Iterator[str]:
    """The address of an engine that has `BASE_IMAGE`, and that ends with all it has.

    Raises:
        EngineUnavailable: It is not installed, or cannot run here.
    """
    executable = shutil.which("dockerd", path=_PATH)
    if sys.platform != "linux" or os.geteuid() != 0:
        raise EngineUnavailable("only root can start one, and only on Linux")
    if executable is None or not BASE_FILE.exists():
        missing = BASE_FILE if executable else "dockerd"
        raise EngineUnavailable(f"there is no {missing}: run `make engine`; .cache/engine.log says what it lacks")
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as directory:
        process = _started(executable, Path(directory))
        try:
            address = _address(Path(directory))
            _import_base(address)
            _try(address)
            yield address
        finally:
            # Its namespaces end with it: no container can stay.
            process.kill()


def _address(directory: Path) -> str:
    return f"unix://{directory}/socket"


def _started(executable: str, directory: Path) -> Process:
    failure = ""
    for driver in _STORAGE_DRIVERS:
        argv: list[str | Path] = [*_IN_NAMESPACES, executable, f"--storage-driver={driver}", *_LEAVING_ALONE]
        argv += [f"--data-root={directory}/data", f"--exec-root={directory}/exec", f"--pidfile={directory}/pid"]
        argv += [f"--host={_address(directory)}"]
        process = Process("dockerd", argv, directory / f"{driver}.log", env={"PATH": _PATH})
        try:
            process.start()
            process.wait_until(lambda: _answers(directory), 60, waiting_for="it answered")
        except ServerFailed as error:
            process.kill()
            failure = str(error)
        else:
            return process
    raise EngineUnavailable(failure)


def _answers(directory: Path) -> bool:
    if not (directory / "socket").exists():
        return False
    try:
        with closing(docker.DockerClient(base_url=_address(directory))) as client:
            return bool(client.ping())
    except DockerException:
        return False


def _import_base(address: str) -> None:
    found = {name: os.environ.get(name) or os.environ.get(name.lower()) for name in _NETWORK}
    settings = {"PIP_CERT": "/etc/ssl/authorities.crt", **{name: value for name, value in found.items() if value}}
    repository, tag = BASE_IMAGE.split(":")
    with closing(docker.APIClient(base_url=address, timeout=300)) as client:
        changes = [f'ENV {name}="{value}"' for name, value in settings.items()]
        said = client.import_image_from_file(str(BASE_FILE), repository=repository, tag=tag, changes=changes)
        if not client.images(BASE_IMAGE):
            raise EngineUnavailable(f"it does not take in {BASE_FILE}: {said}")


def _try(address: str) -> None:
    with closing(docker.DockerClient(base_url=address)) as client:
        try:
            network = client.networks.create("first")
            client.containers.run(BASE_IMAGE, ["true"], network=network.name, remove=True)
            network.remove()
        except DockerException as error:
            raise EngineUnavailable(f"its containers cannot run here: {error}") from error
