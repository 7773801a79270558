"""Which TCP ports on 127.0.0.1 may a server of ours take?"""

import errno
import os
import random
import socket
import sys

from controller.lab.errors import LabError

# Below the range from which systems take the ports of outgoing connections, so none is taken by chance.
_LOWEST, _HIGHEST = 15_000, 30_000

# What this process has handed out: neither it nor a neighbour gets the same port twice.
_reservations: set[int] = set()


def free_ports(count: int) -> tuple[int, ...]:
    """That many distinct ports nobody listens on, reserved for this process as long as it lives.

    A reservation is an abstract Unix socket (Linux): it vanishes with the process, however that ends.
    """
    source = random.Random(os.urandom(8))
    ports: list[int] = []
    for _ in range(1_000):
        if len(ports) == count:
            return tuple(ports)
        port = source.randrange(_LOWEST, _HIGHEST)
        if port not in _reservations and _is_free(port) and _reserve(port):
            ports.append(port)
    raise LabError(f"no {count} free TCP ports between {_LOWEST} and {_HIGHEST} on 127.0.0.1")


def free_port() -> int:
    """One port nobody listens on."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def _reserve(port: int) -> bool:
    if sys.platform != "linux":
        _reservations.add(port)
        return True
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0kafka-zk-controller-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()  # stays open as long as this process lives
    _reservations.add(port)
    return True
