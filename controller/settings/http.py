"""Where are metrics and the state of this process served over HTTP, and to whom?"""

from __future__ import annotations

from msgspec import Struct

from controller.settings.values import Values

KEY = "http.web.config.file"


class HttpSettings(Struct, frozen=True):
    """The HTTP server of one process.

    Shape:
        Port 0 turns it off. `allowed_hosts` are its host names besides its own. `web_config_file` says who may read.
        With `is_open` every client may read, also from other hosts.
    """

    host: str
    port: int
    allowed_hosts: tuple[str, ...]
    web_config_file: str | None
    is_open: bool

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self.host, self.port


def http_of(values: Values) -> HttpSettings:
    """Build it from the keys `http.…`."""
    return HttpSettings(
        host=values.text("http.host"),
        port=values.number("http.port"),
        allowed_hosts=tuple(values.text("http.allowed.hosts").replace(",", " ").split()),
        web_config_file=values.text(KEY) or None,
        is_open=values.flag("http.open"),
    )
