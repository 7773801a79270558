"""How does something run for the time of a `with`, and reliably end?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Server(ABC):
    """A server that is started, stopped cleanly, or killed; an error or Ctrl-C ends it too."""

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it serves."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it cleanly."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, as a crash does."""

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same data."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        except BaseException:
            self.kill()
            raise
