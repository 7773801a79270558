"""Does the image need anything but what it has? The steps of deploy/Dockerfile are run here, without an engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from docker.utils.build import exclude_paths
from packaging.requirements import Requirement

TOP = Path(__file__).parents[2]
LINE = re.compile(r"\s*\\\n\s*")
FROM_LOCK = re.compile(
    r"(\S+)/bin/python -m pip (?:--python (\S+)/bin/python )?install [^&]*--require-hashes -r /tmp/(\S+)"
)


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction with its argument; lines that are continued are joined."""
    without_comments = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    for line in LINE.sub(" ", without_comments).splitlines():
        if line:
            name, _, argument = line.partition(" ")
            yield name, argument.strip()


class Steps:
    """What an engine does for the Dockerfile, below a directory instead of in an image.

    Locked packages are copied from this environment, so that no network is needed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.context = exclude_paths(str(TOP), (TOP / ".dockerignore").read_text().splitlines()[1:])
        self.entry_point: list[str] = []
        self.image = root

    def below(self, text: str) -> str:
        """A command or path, with the image's directories below the root."""
        return re.sub(r"(?<![\w/])/(opt|tmp)\b", rf"{self.root}/\1", text)

    def copy(self, argument: str) -> None:
        """COPY of the context, or of the directory that becomes the image."""
        *sources, target = argument.split()
        if sources[0].startswith("--from="):
            assert target == "/"
            self.image = Path(self.below(sources[1]))
            return
        for source in sources:
            for file in (TOP / path for path in self.context):
                if file.is_file() and file.is_relative_to(TOP / source):
                    inside = file.name if file == TOP / source else file.relative_to(TOP / source)
                    there = Path(self.below(target), inside)
                    there.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, there)

    def run(self, argument: str) -> None:
        """RUN, as its shell runs it."""
        command = self.below(re.sub(r"\bpython3\b", sys.executable, FROM_LOCK.sub("true", argument)))
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        for own, other, lock in FROM_LOCK.findall(argument):
            self._locked(Path(self.below(other or own)), Path(self.below(f"/tmp/{lock}")))

    def finish(self) -> None:
        """Leave nothing of the earlier stage."""
        for path in [*self.root.glob("opt"), *self.root.glob("tmp/*")]:
            if path != self.image:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _locked(self, environment: Path, lock: Path) -> None:
        (packages,) = environment.glob("lib/python3*/site-packages")
        wanted = [Requirement(line.rstrip(" \\")) for line in lock.read_text().splitlines() if line[:1].isalnum()]
        assert wanted, f"{lock} was not copied"
        for requirement in wanted:
            if requirement.marker is None or requirement.marker.evaluate():
                for file in distribution(requirement.name).files or []:
                    _install(Path(str(file.locate())), packages / file, environment)


def _install(file: Path, there: Path, environment: Path) -> None:
    """Copy a file of a package; a program is then run by the Python of that environment."""
    there = Path(os.path.normpath(there))
    there.parent.mkdir(parents=True, exist_ok=True)
    if there.parent != environment / "bin":
        shutil.copy2(file, there)
        return
    there.write_text(f"#!{environment}/bin/python\n{file.read_text().split(chr(10), 1)[1]}")
    there.chmod(0o755)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """All steps, done."""
    steps = Steps(tmp_path_factory.mktemp("image"))
    for name, argument in instructions((TOP / "deploy/Dockerfile").read_text("utf-8")):
        match name:
            case "COPY":
                steps.copy(argument)
            case "RUN":
                steps.run(argument)
            case "ENTRYPOINT":
                steps.entry_point = [steps.below(each) for each in json.loads(argument)]
    steps.finish()
    return steps


def run_in(image: Steps, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the image, which sees no other files; skip where that takes a right that is missing."""
    chroot = shutil.which("chroot", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if os.geteuid() != 0 or chroot is None:
        pytest.skip("only root can run a program with another root, by chroot")
    argv = (chroot, str(image.image), *argv)
    return subprocess.run(argv, env={"LANG": "C.UTF-8"}, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--version"], "kafka-zk-controller, version "),
        (["run", "--help"], "Usage: kafka-zk-controller run"),
        (["settings"], "zookeeper.connect"),
    ],
)
def test_it_starts_with_nothing_else_around_it(image: Steps, arguments: list[str], shown: str) -> None:
    done = run_in(image, *image.entry_point, *arguments)

    assert (done.returncode, done.stderr) == (0, "")
    assert shown in done.stdout


def test_every_module_of_the_program_finds_what_it_imports(image: Steps) -> None:
    """But for the lab and the replay, which need extras that the image does not have."""
    script = (
        "import importlib, pkgutil, sys, controller, metrics, zk_layout\n"
        "left = ('controller.lab', 'controller.demo', 'metrics.replay')\n"
        "for package in (controller, metrics, zk_layout):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if not module.name.startswith(left):\n"
        "            importlib.import_module(module.name)\n"
        "print(len(sys.modules))"
    )

    done = run_in(image, str(Path(image.entry_point[0]).parent / "python"), "-c", script)

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 500


def test_python_can_verify_certificates_and_resolve_names(image: Steps) -> None:
    # An engine gives each container such a file.
    (image.image / "etc/hosts").write_text("127.0.0.7 broker-7\n")
    script = (
        "import socket, ssl, tempfile\n"
        "ssl.create_default_context()\n"
        "tempfile.TemporaryFile().close()\n"
        "print(socket.getaddrinfo('broker-7', 80)[0][4][0])"
    )

    done = run_in(image, str(Path(image.entry_point[0]).parent / "python"), "-c", script)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == "127.0.0.7"


def test_it_has_no_shell_and_no_pip(image: Steps) -> None:
    programs = {path.name for path in image.image.rglob("bin/*")}

    assert any(name.startswith("python") for name in programs)
    assert programs & {"sh", "bash", "dash", "apt-get", "dpkg", "pip", "pip3"} == set()
    assert [*image.image.rglob("site-packages/pip"), *image.image.rglob("ensurepip")] == []
