"""Which files of the base does the image need? deploy/Dockerfile runs this with the Python that the image gets.

`python3 small_root.py ROOT DIRECTORY` copies a virtual environment to ROOT, each file to the place where it was, and
with it: its Python without what only developers need, every library that Python and the compiled packages load, the
authorities of certificates, and what the C library looks up. Debian's packages that these files belong to are listed
where vulnerability scanners look for them. A shell, pip and the package manager stay behind.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

# Of Python's library: what no program needs in order to run, and packages beside the virtual environment.
_FOR_DEVELOPERS = re.compile(
    r"ensurepip|idlelib|lib2to3|pydoc_data|tests?|tkinter|turtledemo|config-\d.*|(site|dist)-packages"
    r"|(_tkinter|_test.*|_ctypes_test.*|xxlimited.*)\.\S+\.so"
)
_PRIVATE_KEYS = re.compile(r"private")
_LOADED = re.compile(r"(?:=> )?(/\S+) \(0x")
# The package, without its architecture.
_OWNER = re.compile(r"^([a-z0-9][a-z0-9+.-]*)(?::[a-z0-9]+)?: /", re.MULTILINE)
_MISSING = re.compile(r"(\S+) => not found")
# What the C library reads or loads by name, where the base has it.
_LOOKED_UP = (
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/etc/os-release",
    "/etc/localtime",
)
_LOADED_BY_NAME = ("libnss_files*.so*", "libnss_dns*.so*", "libresolv.so*", "libgcc_s.so*", "ossl-modules/*.so")
_LOCALE = "/usr/lib/locale/C.utf8"


class SmallRoot:
    """A directory that becomes the root of an image."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.taken: set[Path] = set()
        # By the path of a folder of the base: where links lead to from it.
        self._folders = {Path("/"): Path("/")}

    def take(self, path: Path) -> None:
        """Copy a file, or make a folder, where the base has it. Each link on the way to it becomes the same link."""
        if path.is_dir():
            self._folder(path)
            return
        real = self._folder(path.parent) / path.name
        if real.is_symlink():
            self.take(self._linked(real))
        elif real not in self.taken:
            shutil.copy2(real, self._there(real))
            self.taken.add(real)

    def _folder(self, path: Path) -> Path:
        if path not in self._folders:
            real = self._folder(path.parent) / path.name
            if real.is_symlink():
                real = self._folder(self._linked(real))
            else:
                self._there(real).mkdir(exist_ok=True)
            self._folders[path] = real
        return self._folders[path]

    def _linked(self, link: Path) -> Path:
        """Where this link leads to, having made it."""
        target = link.readlink()
        if not self._there(link).is_symlink():
            self._there(link).symlink_to(target)
        return Path(os.path.normpath(link.parent / target))

    def _there(self, path: Path) -> Path:
        return Path(f"{self.root}{path}")

    def take_tree(self, directory: Path, but_for: re.Pattern[str] = re.compile(r"\b\B")) -> None:
        """Take what is below a directory, but for files and folders of some names, and what links there lead to."""
        for at, folders, files in os.walk(directory):
            folders[:] = [name for name in folders if not but_for.fullmatch(name)]
            for name in (*folders, *files):
                path = Path(at, name)
                # A link that leads nowhere would lead nowhere there.
                if path.exists() and not but_for.fullmatch(name):
                    self.take(path)

    def take_libraries(self) -> None:
        """Take all that the programs and libraries taken so far load, and name what the base does not have of it."""
        binaries = [path for path in sorted(self.taken) if _is_elf(path)]
        said = _said(("ldd",), *binaries)
        for name in sorted(set(_MISSING.findall(said))):
            # Not always an error: some packages have a slower module in Python for where theirs cannot be loaded.
            sys.stderr.write(f"the base has no {name}, which a compiled module loads\n")
        loaded = {Path(path) for path in _LOADED.findall(said)}
        folders = {path.parent for path in loaded}
        by_name = [path for folder in folders for pattern in _LOADED_BY_NAME for path in folder.glob(pattern)]
        for path in sorted(loaded.union(by_name)):
            self.take(path)

    def list_packages(self, environment: Path) -> None:
        """Write the status of Debian's packages that files outside come from, as images without dpkg have it."""
        if shutil.which("dpkg-query") is None:
            return
        status = self.root / "var/lib/dpkg/status.d"
        status.mkdir(parents=True)
        for package in sorted(_owners(path for path in self.taken if not path.is_relative_to(environment))):
            (status / package).write_text(_said(("dpkg-query", "--status"), package))


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _owners(files: Iterable[Path]) -> set[str]:
    # dpkg may know a file below /lib that is below /usr/lib today.
    names = {name for path in files for name in (str(path), str(path).removeprefix("/usr"))}
    return set(_OWNER.findall(_said(("dpkg-query", "--search"), *sorted(names))))


def _said(command: tuple[str, ...], *arguments: str | Path) -> str:
    """What a program prints of its arguments, a thousand at a time; some it may not know."""
    printed = ""
    for start in range(0, len(arguments), 1000):
        argv = [*command, *arguments[start : start + 1000]]
        environment = {**os.environ, "LC_ALL": "C"}
        printed += subprocess.run(argv, capture_output=True, text=True, check=False, env=environment).stdout
    return printed


def _authorities() -> Iterator[Path]:
    verified = ssl.get_default_verify_paths()
    for path in map(Path, (verified.openssl_cafile, verified.openssl_capath)):
        yield from (path, path.parent / "openssl.cnf")
    yield Path("/etc/ssl")


def main(root: Path, environment: Path) -> None:
    """Make the root of the image that has this virtual environment."""
    root.mkdir(parents=True)
    small = SmallRoot(root)
    small.take_tree(environment)
    small.take_tree(Path(sysconfig.get_path("stdlib")), _FOR_DEVELOPERS)
    small.take_libraries()
    for path in (*_authorities(), *map(Path, (*_LOOKED_UP, _LOCALE))):
        if path.exists():
            small.take(path)
            small.take_tree(path.resolve(), _PRIVATE_KEYS)
    small.list_packages(environment)
    # Some bases have Python's library without the compiled modules: a container would compile them at each start.
    compileall.compile_dir(root, quiet=2, stripdir=str(root), prependdir="/", workers=0)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
