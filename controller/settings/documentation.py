"""How do the settings look in the documentation? Everything is made from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.settings.elsewhere import REFUSED
from controller.settings.setting import Setting
from controller.settings.sources import environment_name
from controller.settings.table import SETTINGS
from controller.settings.values import shown

_INTRODUCTION = f"""# Settings

<!-- Made by `kafka-zk-controller settings --output markdown`; a test compares. -->

Settings come from the properties file of `--config`; environment variables override the file, and `--set key=value`
overrides both. A key's environment variable is the key in capitals, with a prefix and underscores for dots:
`zookeeper.connect` is `{environment_name("zookeeper.connect")}`.

A setting with Kafka's name has Kafka's meaning; those marked * exist only here. `init` makes a file from a running
broker ([operations](operations.md#setting-up-a-replica)), and a broker's `server.properties` can serve as one: give it
another `broker.id` and other `listeners`. `run --check-config` prints the settings in force, or everything that is
wrong, and starts nothing.

`config.providers` is Kafka's: with `config.providers=file` and
`config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider`, a value `${{file:/path:key}}`
is had from that file when the process starts. DirectoryConfigProvider (`${{dir:/path:file}}`) and EnvVarConfigProvider
(`${{env:NAME}}`) are there, too, with their parameters `allowed.paths` and `allowlist.pattern`. Errors and
`--check-config` show what is written instead of such a value, and DescribeConfigs hides it. Where a value cannot be
had, the process does not start; a broker would take the variable itself for the value.

On SIGHUP the process reads all of this again ([operations](operations.md#changing-settings)). A setting with *yes*
under *at run time* then counts at once, as does `listener.name.<name>.max.connections`; of any other, and of those that
secure a listener ([security](security.md)), the former value is in force until a restart, and `status` names it.

What is marked † a native controller has from its broker. Where it is not set here, this one has it from all brokers:
what they agree on is in force, and where they differ, what protects most (no deletion, no unclean election, no
automatic rebalance, fewer partitions, more replicas, more of them in sync). Brokers are asked before the first claim
(`--check-cluster` shows what is in force), and again when one restarts or is changed at run time; a leader that finds a
change begins another term. A broker that is away counts as it was for ten minutes. Until one has answered, no topic is
deleted, and requests to delete one wait. What is set here counts, with a warning where all brokers have something else.
No controller decides by `log.dirs` or `alter.config.policy.class.name`, which concern brokers only.
"""


def default_of(setting: Setting) -> str:
    """The default as text."""
    if setting.is_required:
        return "required"
    if setting.same_as is not None:
        return f"that of {setting.same_as}"
    return "" if setting.default is None else shown(setting.key, setting.default)


def at_run_time(setting: Setting) -> str:
    """When a change counts."""
    return "yes" if setting.counts_at_once else "after a restart"


def as_markdown() -> str:
    """The whole page."""
    rows = [
        (f"`{s.key}`{_marks(s)}", s.kind.name, default_of(s).replace(",", ", "), at_run_time(s), s.doc)
        for s in SETTINGS
    ]
    return "\n".join(
        [
            _INTRODUCTION,
            *_table(("key", "takes", "default", "at run time", "meaning"), rows),
            "",
            "## Refused",
            "",
            "The process does not start with any of these, because it cannot do what they ask for.",
            "",
            *_pairs(REFUSED, "what to do"),
            "",
            "All other broker settings, and keys in the file that belong to brokers' plug-ins (`kafka.rest.enable`, "
            "`ldap.…`), are ignored and listed in one log line. A key that resembles one of these here is an error.",
            "",
        ]
    )


def _marks(setting: Setting) -> str:
    return ("" if setting.is_kafkas else " *") + (" †" if setting.protecting is not None else "")


def _pairs(texts: Mapping[str, str], title: str) -> list[str]:
    return _table(("key", title), [(f"`{key}`", text) for key, text in texts.items()])


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ("---",) * len(header), *rows)]
