"""What deploy/Dockerfile installs starts without the sources: its own steps are run here, without an engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.utils.build import exclude_paths

TOP = Path(__file__).parents[2]
LINE = re.compile(r"\s*\\\n\s*")
FROM_LOCK = re.compile(r"(\S+)/bin/python -m pip install [^&]*--require-hashes -r /tmp/(\S+)")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction with its argument; lines that are continued are joined."""
    without_comments = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    for line in LINE.sub(" ", without_comments).splitlines():
        if line:
            name, _, argument = line.partition(" ")
            yield name, argument.strip()


class Steps:
    """What an engine does for the Dockerfile, below a directory instead of in an image.

    Locked packages are those of this environment, so that no network is needed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.context = exclude_paths(str(TOP), (TOP / ".dockerignore").read_text().splitlines()[1:])
        self.entry_point: list[str] = []
        self.directory = root
        self._of_earlier_stages: list[Path] = []

    def below(self, text: str) -> str:
        """A command or path, with the image's directories below the root."""
        return re.sub(r"(?<![\w/])/(opt|tmp)\b", rf"{self.root}/\1", text)

    def stage(self) -> None:
        """FROM."""
        self._of_earlier_stages = [*self.root.glob("opt/*"), *self.root.glob("tmp/*")]

    def copy(self, argument: str) -> None:
        """COPY of the context, or of what an earlier stage has at the same path."""
        *sources, target = argument.split()
        if sources[0].startswith("--from="):
            self._of_earlier_stages.remove(Path(self.below(target)))
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
        for environment, lock in FROM_LOCK.findall(argument):
            self._locked(Path(self.below(environment)), Path(self.below(f"/tmp/{lock}")))

    def finish(self) -> None:
        """Leave what the last stage has."""
        for path in self._of_earlier_stages:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _locked(self, environment: Path, lock: Path) -> None:
        assert lock.stat().st_size, f"{lock} was not copied"
        here = Path(sysconfig.get_path("purelib"))
        (packages,) = environment.glob("lib/python3*/site-packages")
        for path in here.iterdir():
            is_ours = path.name.startswith(("__editable__", "kafka_zk_controller"))
            if not (is_ours or (packages / path.name).exists()) and path.suffix != ".pth":
                (packages / path.name).symlink_to(path)
        text = Path(sysconfig.get_path("scripts"), "hatchling").read_text().split("\n", 1)[1]
        script = environment / "bin/hatchling"
        script.write_text(f"#!{environment}/bin/python\n{text}")
        script.chmod(0o755)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """All steps, done."""
    steps = Steps(tmp_path_factory.mktemp("image"))
    for name, argument in instructions((TOP / "deploy/Dockerfile").read_text("utf-8")):
        match name:
            case "FROM":
                steps.stage()
            case "COPY":
                steps.copy(argument)
            case "RUN":
                steps.run(argument)
            case "WORKDIR":
                steps.directory = Path(steps.below(argument))
            case "ENTRYPOINT":
                steps.entry_point = [steps.below(each) for each in json.loads(argument)]
    steps.finish()
    return steps


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [(["--version"], "kafka-zk-controller, version "), (["run", "--help"], "Usage: kafka-zk-controller run")],
)
def test_it_starts_without_the_sources(image: Steps, arguments: list[str], shown: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    done = subprocess.run(
        [*image.entry_point, *arguments],
        cwd=image.directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert shown in done.stdout
