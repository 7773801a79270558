"""Which cluster does a controller's own properties file name?"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from controller.reassign.refusals import Unusable
from controller.settings import BadSettings, load
from controller.settings.security import ZooKeeperSecurity
from controller.wire.versions import parse_wanted


class ControllerConfig:
    """Reads the file, and what the environment changes of it, when it is first asked; it may be a pipe."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def zookeeper(self) -> tuple[str, ZooKeeperSecurity]:
        """Its `zookeeper.connect`, and how to go there.

        Raises:
            Unusable: no controller could run with this file; with everything that is wrong in it.
        """
        try:
            settings = load(self._path, (), os.environ, {"inter.broker.protocol.version": parse_wanted})
        except BadSettings as error:
            raise Unusable("\n".join(error.problems)) from None
        return settings.zookeeper.connect, settings.zookeeper.security
