"""How do the settings look in the documentation? Everything comes from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.settings.elsewhere import REFUSED, WITHOUT_EFFECT
from controller.settings.sources import environment_name
from controller.settings.table import SETTINGS, Setting
from controller.settings.values import shown

_INTRODUCTION = f"""# Settings

<!-- Made by `kafka-zk-controller settings --output markdown`; a test compares. -->

A setting is read from the properties file of `--config`, then from the environment, then from `--set key=value`; the
last one counts. The environment variable of a key is the key in capitals, with underscores for dots and a prefix:
`zookeeper.connect` is `{environment_name("zookeeper.connect")}`.

Names are Kafka's own where the meaning is; those marked * exist only here. A broker's `server.properties` can be used
as a start: give it another `broker.id` and other `listeners`. `run --check-config` shows what is in force, or all that
is wrong, and starts nothing.
"""


def default_of(setting: Setting) -> str:
    """What is in force where nothing is set, in words."""
    if setting.is_required:
        return "required"
    if setting.same_as is not None:
        return f"that of {setting.same_as}"
    return "" if setting.default is None else shown(setting.key, setting.default)


def as_markdown() -> str:
    """The whole page."""
    rows = [
        (f"`{s.key}`" + ("" if s.is_kafkas else " *"), s.kind.name, default_of(s).replace(",", ", "), s.doc)
        for s in SETTINGS
    ]
    return "\n".join(
        [
            _INTRODUCTION,
            *_table(("key", "takes", "default", "meaning"), rows),
            "",
            "## Refused",
            "",
            "The process does not start with these, because it would do something else than what they say.",
            "",
            *_pairs(REFUSED, "what to do"),
            "",
            "## Without effect yet",
            "",
            "Accepted with a warning. All other keys of a broker are ignored, and named in one line of the log.",
            "",
            *_pairs(WITHOUT_EFFECT, "because"),
            "",
        ]
    )


def _pairs(texts: Mapping[str, str], title: str) -> list[str]:
    return _table(("key", title), [(f"`{key}`", text) for key, text in texts.items()])


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ("---",) * len(header), *rows)]
