"""Do the commands of docs/install.md install the program, each in an environment of its own?

In the default run other packages come from the tests' environment; in the thorough one from a package index.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from zipfile import ZipFile

import pytest

from tests.unit.test_install_page import COMMANDS, PAGE

TOP = Path(__file__).parents[2]
VERSION = version("kafka-zk-controller")
WHEEL = f"kafka_zk_controller-{VERSION}-py3-none-any.whl"
INSTALLED = "/opt/kafka-zk-controller"
INDEX = "https://packages.example.org/simple/"
PIPX, UV = "pipx>=1.7,<2", "uv>=0.8,<1"
# Of a package index on a slow day, on a busy machine.
INSTALL_WITHIN_S = 1200.0
DEMO_WITHIN_S = 900.0

(MAKE_WHEEL,) = [block for block in COMMANDS if "pip wheel" in block]
FROM_FILE = [block for block in COMMANDS if f"./{WHEEL}" in block and f"{WHEEL}[" not in block]
FROM_INDEX = [block for block in COMMANDS if INDEX in block]
WITH_EXTRA = [block for block in COMMANDS if f"{WHEEL}[" in block]
WITH_PIP = "-m pip install"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made as the page says, but with the build backend of this environment."""
    made = tmp_path_factory.mktemp("made")
    command = MAKE_WHEEL.replace("python3", sys.executable).replace("--wheel-dir dist", f"--wheel-dir {made}")
    _run(command.replace("pip wheel", "pip wheel --no-build-isolation"), TOP)
    (file,) = made.iterdir()
    assert file.name == WHEEL
    return file


@pytest.fixture
def place(tmp_path: Path, wheel: Path) -> Path:
    """A directory with the wheel and the lock."""
    (tmp_path / WHEEL).symlink_to(wheel)
    (tmp_path / "requirements.lock").symlink_to(TOP / "requirements.lock")
    return tmp_path


@pytest.fixture
def index(tmp_path: Path, wheel: Path) -> Iterator[str]:
    """The address of an index with this wheel alone."""
    with _served([wheel], tmp_path / "served") as address:
        yield address


@pytest.fixture(scope="module")
def whole_index(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[str]:
    """The address of an index with this wheel and all packages that it needs."""
    home = tmp_path_factory.mktemp("whole")
    fetch = "-m pip download --quiet --no-deps --require-hashes --only-binary :all: --dest others --requirement"
    _run(f"{sys.executable} {fetch} {TOP / 'requirements.lock'}", home)
    with _served([wheel, *(home / "others").iterdir()], home / "served") as address:
        yield address


@contextmanager
def _served(files: Iterable[Path], directory: Path) -> Iterator[str]:
    """The address of an index with these files, as PEP 503 has it."""
    for file in files:
        project = directory / "simple" / re.sub(r"[-_.]+", "-", file.name.split("-")[0]).lower()
        project.mkdir(parents=True, exist_ok=True)
        (project / file.name).symlink_to(file)
        with (project / "index.html").open("a") as page:
            page.write(f'<a href="{file.name}">{file.name}</a>')
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(directory))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Tests that pass print nothing."""


def _run(
    commands: str, directory: Path, more: Mapping[str, str] | None = None, timeout_s: float = INSTALL_WITHIN_S
) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=directory,
        env={**os.environ, **(more or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def _here(block: str, place: Path) -> str:
    """The commands of the page, for a directory instead of /opt; an environment is made where they need one."""
    venv = f"python3 -m venv {INSTALLED}"
    if INSTALLED in block and venv not in block:
        block = f"{venv}\n{block}"
    return block.replace(INSTALLED, str(place / "installed")).replace("python3 ", f"{sys.executable} ")


def _packages(place: Path) -> str:
    """The packages of this environment, without this project's own."""
    chosen = place / "packages"
    chosen.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.suffix != ".pth" and not path.name.startswith(("kafka_zk_controller", "__editable__")):
            (chosen / path.name).symlink_to(path)
    return str(chosen)


def _version(program: Path, more: Mapping[str, str] | None = None) -> str:
    return _run(f"{program} --version", program.parent, more).strip()


@pytest.mark.parametrize(
    "block", [block for block in [*FROM_FILE, *WITH_EXTRA] if WITH_PIP in block and "requirements" not in block]
)
def test_pip_installs_the_file(block: str, place: Path) -> None:
    """The other packages are this environment's, which takes no network and a few seconds."""
    installing, _, asking = block.partition("\n/opt/kafka-zk-controller/bin/kafka-zk-controller")
    _run(_here(installing, place), place, {"PIP_NO_DEPS": "1"})

    program = place / "installed/bin/kafka-zk-controller"
    assert asking.strip() in {"", "--version"}
    assert _version(program, {"PYTHONPATH": _packages(place)}).endswith(f"version {VERSION}")


@pytest.mark.parametrize("block", [block for block in FROM_INDEX if WITH_PIP in block])
def test_pip_installs_from_an_index_of_ones_own(block: str, place: Path, index: str) -> None:
    commands = _here(block, place).replace(INDEX, index)
    _run(commands, place, {"PIP_NO_DEPS": "1", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""})

    program = place / "installed/bin/kafka-zk-controller"
    assert _version(program, {"PYTHONPATH": _packages(place)}).endswith(f"version {VERSION}")


def test_without_the_extra_the_demo_says_what_it_needs(place: Path, wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    script = "import sys; sys.modules['pyspark'] = None; from controller.__main__ import main; main(['demo'])"

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place / "site"), "XDG_CACHE_HOME": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "install the extra [lab] of the wheel" in " ".join((done.stdout + done.stderr).split())


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pipx and uv, in an environment of their own."""
    home = tmp_path_factory.mktemp("tools")
    _run(f"{sys.executable} -m venv tools && tools/bin/python -m pip install --quiet '{PIPX}' '{UV}'", home)
    return home / "tools" / "bin"


@pytest.mark.thorough
@pytest.mark.timeout(INSTALL_WITHIN_S)
@pytest.mark.parametrize("block", FROM_FILE)
def test_a_file_is_installed_with_all_that_it_needs(block: str, place: Path, tools: Path) -> None:
    found = _installed(block, place, tools)

    assert _version(found).endswith(f"version {VERSION}")
    assert "zookeeper.connect" in _run(f"{found} settings", place)


@pytest.mark.thorough
@pytest.mark.timeout(INSTALL_WITHIN_S)
@pytest.mark.parametrize("block", FROM_INDEX)
def test_an_index_of_ones_own_is_enough(block: str, place: Path, tools: Path, whole_index: str) -> None:
    """Nothing is fetched from anywhere else."""
    elsewhere = {"PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"}

    found = _installed(block.replace(INDEX, whole_index), place, tools, elsewhere)

    assert _version(found).endswith(f"version {VERSION}")


def _installed(block: str, place: Path, tools: Path, more: Mapping[str, str] | None = None) -> Path:
    """Run commands of the page; where the program is then."""
    home = place / "home"
    own = {"HOME": str(home), "PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "bin")}
    own |= {"UV_TOOL_DIR": str(home / "uv"), "UV_TOOL_BIN_DIR": str(home / "bin"), "UV_PYTHON": sys.executable}
    own |= {"PIPX_DEFAULT_PYTHON": sys.executable, "PATH": f"{tools}:{os.environ['PATH']}", **(more or {})}
    _run(_here(block, place), place, own)
    places = [place / "installed/bin", home / "bin"]
    (found,) = [path for path in (each / "kafka-zk-controller" for each in places) if path.exists()]
    return found


@pytest.mark.thorough
@pytest.mark.timeout(DEMO_WITHIN_S)
def test_the_demo_runs_from_the_wheel(place: Path, wheel: Path) -> None:
    """With this environment's packages, which are those of the extra `lab`."""
    with ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    script = "import sys, controller; assert 'site' in controller.__file__; sys.argv[0] = 'kafka-zk-controller'\n"
    script += "from controller.__main__ import main; main(['demo'])"
    (place / "demo.py").write_text(script)

    said = _run(f"{sys.executable} demo.py", place, {"PYTHONPATH": str(place / "site")}, DEMO_WITHIN_S)

    assert "checks passed" in said


def test_the_page_names_the_wheel_of_this_version_and_its_extras(wheel: Path) -> None:
    page = PAGE.read_text("utf-8")
    with ZipFile(wheel) as archive:
        described = archive.read(f"kafka_zk_controller-{VERSION}.dist-info/METADATA").decode()

    assert set(re.findall(r"kafka_zk_controller-[\d.]+-py3-none-any\.whl", page)) == {WHEEL}
    extras = set(re.findall(r"^Provides-Extra: (.*)$", described, re.MULTILINE)) - {"dev"}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == extras
