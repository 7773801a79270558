"""What can one ask of this program on the command line?"""

from __future__ import annotations

import codecs
import io
import sys
from importlib import import_module
from typing import Any

import click

# Each is imported when it is used: most need far less than the daemon.
_COMMANDS = {
    "diagnose": "controller.commands.diagnose",
    "init": "controller.commands.init",
    "metrics": "controller.commands.listings",
    "migration": "controller.commands.migration",
    "observe": "controller.commands.observe",
    "pause": "controller.commands.pause",
    "plan": "controller.reassign.planning_command",
    "reassign": "controller.reassign.command",
    "release": "controller.commands.release",
    "replay": "metrics.replay.commands.cli",
    "resume": "controller.commands.pause",
    "rollback": "controller.reassign.rollback_command",
    "run": "controller.commands.run",
    "settings": "controller.commands.listings",
    "status": "controller.commands.status",
    "switchover": "controller.commands.switchover",
}

_ERRORS = "kafka-zk-controller"
_INSTEAD = {"→": "->", "…": "...", "–": "-", "×": "x", "†": "+", "✓": "ok", "✗": "WRONG"}


class _Commands(click.Group):
    """The commands of this module, and those of others by name."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Also the help is printed so that every terminal can show it."""
        _substitute_unknown_characters()
        return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted({*super().list_commands(ctx), *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command; None if there is none of this name."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        return command


def _substitute(error: UnicodeError) -> tuple[str, int]:
    """Similar characters of ASCII; others by their numbers.

    >>> codecs.register_error(_ERRORS, _substitute)
    >>> "a → b … é".encode("ascii", _ERRORS)
    b'a -> b ... \\\\xe9'
    """
    assert isinstance(error, UnicodeEncodeError)
    texts = [
        _INSTEAD.get(c) or c.encode("ascii", "backslashreplace").decode() for c in error.object[error.start : error.end]
    ]
    return "".join(texts), error.end


def _substitute_unknown_characters() -> None:
    """From here on, standard output and standard error get similar characters for those that they cannot encode.

    The locale, such as `LC_ALL=en_US.ISO-8859-1`, or PYTHONIOENCODING decides which these are.
    """
    codecs.register_error(_ERRORS, _substitute)
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper) or stream.encoding.lower().startswith("utf"):
            continue
        # click takes an ASCII stream for a mistake, and writes UTF-8 to it.
        is_ascii = codecs.lookup(stream.encoding).name == "ascii"
        stream.reconfigure(encoding="latin-1" if is_ascii else None, errors=_ERRORS)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="kafka-zk-controller", prog_name="kafka-zk-controller")
def main() -> None:
    """A standalone controller for Apache Kafka clusters in ZooKeeper mode (brokers 2.4 to 3.9).

    It claims /controller in ZooKeeper and the brokers obey it; Kafka's own controllers remain as the fallback.

    \b
    Try it on this machine:        kafka-zk-controller demo
    Write a configuration:         kafka-zk-controller init --server-properties server.properties
    Observe, without any change:   kafka-zk-controller observe --config controller.properties
    Look before it leads:          kafka-zk-controller run --config controller.properties --check-cluster
    Run it beside a cluster:       kafka-zk-controller run --config controller.properties
    Check a running replica:       kafka-zk-controller status
    See all of them:               kafka-zk-controller status --config controller.properties
    Let another replica lead:      kafka-zk-controller switchover --to 902 --config controller.properties
    Give the cluster back:         kafka-zk-controller release --config controller.properties
    Let no move begin, for now:    kafka-zk-controller pause --config controller.properties
    Let moves begin again:         kafka-zk-controller resume --config controller.properties
    Move partitions:               kafka-zk-controller reassign --help
    Plan moves of many:            kafka-zk-controller plan --help
    Take moves back:               kafka-zk-controller rollback --help
    Find out what is wrong:        kafka-zk-controller diagnose --config controller.properties
    Look into the past:            kafka-zk-controller replay --help
    Before leaving for KRaft:      kafka-zk-controller migration --check --config controller.properties
    """


@main.command()
@click.option("--kafka-version", default="3.9.1", show_default=True, help="Version of the brokers.")
@click.option("--partitions", default=12, show_default=True, help="Partitions of the topic to move.")
@click.option("--keep", is_flag=True, help="Leave the cluster running, and print how to use it.")
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the report; progress goes to standard error.",
)
def demo(kafka_version: str, partitions: int, keep: bool, output: str) -> None:
    """Move every partition on a real cluster on this machine, and kill the leading controller half-way.

    Starts ZooKeeper, three Kafka brokers and two replicas of the controller; produces and consumes throughout; moves
    the topic with Kafka's own kafka-reassign-partitions; kills the leader with SIGKILL; checks that no record was lost.

    \b
      kafka-zk-controller demo
      kafka-zk-controller demo --kafka-version 2.4.1 --keep

    Exit codes: 0 every check passed, 1 a check failed, 130 interrupted.
    """
    from controller.demo import story

    sys.exit(story.main(kafka_version=kafka_version, partitions=partitions, keep=keep, output=output))


if __name__ == "__main__":
    main(prog_name="kafka-zk-controller")
