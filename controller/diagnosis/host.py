"""Which versions run here, on which machine, and how much room do they have?"""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import socket
import ssl
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Final

_DISTRIBUTION: Final = "kafka-zk-controller"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def host(directories: dict[str, str]) -> dict[str, Any]:
    """Versions and resources; the free space of each of these directories, by setting."""
    return {
        "kafka-zk-controller": metadata.version(_DISTRIBUTION),
        "python": sys.version,
        "openssl": ssl.OPENSSL_VERSION,
        "system": platform.platform(),
        "host": socket.gethostname(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "processors": os.cpu_count(),
        "open_files_limit": resource.getrlimit(resource.RLIMIT_NOFILE),
        "load": os.getloadavg(),
        "free_bytes": {key: _free(path) for key, path in directories.items()},
        "libraries": _libraries(),
    }


def files_in(directory: str) -> list[str]:
    """Names and sizes of the files in a directory, without their content.

    Raises:
        OSError: it cannot be read.
    """
    with os.scandir(directory) as entries:
        return sorted(f"{entry.name} {entry.stat().st_size}" for entry in entries if entry.is_file())


def _free(path: str) -> int | str:
    try:
        return shutil.disk_usage(Path(path)).free
    except OSError as error:
        return str(error.strerror)


def _libraries() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for required in metadata.requires(_DISTRIBUTION) or ():
        name = _NAME.match(required)
        if name is not None:
            try:
                found[name[0]] = metadata.version(name[0])
            except metadata.PackageNotFoundError:
                found[name[0]] = None
    return dict(sorted(found.items()))
