"""What does each action of `kafka-zk-controller reassign` do with its options?"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console

from controller.reassign.answer import Answer
from controller.reassign.cancelling import Cancellation, cancel, demand_mode
from controller.reassign.client_properties import DEFAULT_API_TIMEOUT_MS
from controller.reassign.cluster import Cluster
from controller.reassign.connecting import connect
from controller.reassign.controller_config import ControllerConfig
from controller.reassign.executing import Clock, Execution, execute
from controller.reassign.generating import Proposal, generate
from controller.reassign.input_file import InputFile
from controller.reassign.listing import request_sentence, show_moves
from controller.reassign.option_values import DURATION, FILE, INTEGER, Judged, at_least, mistakes_in
from controller.reassign.options import ACTIONS, DEFAULT_MOVE_TIMEOUT_MS, MOVES_FILE, Options, demand_sound
from controller.reassign.refusals import INTERRUPTED, Stopped
from controller.reassign.verifying import verify
from controller.reassign.views import Bars, Documents, Lines, View
from controller.reassign.watching import COMPUTED, Watch, first_listing, wanted_moves, watch

_LINES_INTERVAL_S = 5.0
NO_THROTTLE = -1
"""Kafka's default, which scripts may also write."""
THROTTLES = ("throttle", "replica_alter_log_dirs_throttle")
GROUPS = (
    ("Actions (exactly one)", ACTIONS),
    ("Which cluster", ("bootstrap_server", "config", "command_config", "zookeeper", "timeout")),
    ("Which partitions", (MOVES_FILE, "topic", "partition", "request")),
    ("For --generate", ("topics_to_move_json_file", "broker_list", "disable_rack_aware")),
    ("For --execute", ("additional", "partial", *THROTTLES, "reason", "give_up_after")),
    ("For --verify and cancels", ("preserve_throttles", "gentle", "force")),
    ("How it is shown", ("output", "interval")),
)


class GroupedCommand(click.Command):
    """Groups the help by purpose instead of one long list."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes long options with one dash, too, as Kafka's tool does."""
        known = {name for param in self.params for name in param.opts}
        return super().parse_args(ctx, [f"-{arg}" if f"-{arg.partition('=')[0]}" in known else arg for arg in args])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each group under its own heading."""
        records = {
            param.name: record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None
        }
        for title, names in GROUPS:
            with formatter.section(title):
                formatter.write_dl([records.pop(name) for name in names])
        with formatter.section("Other"):
            formatter.write_dl(list(records.values()))


def _flag(name: str, text: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    return click.option(name, is_flag=True, help=text)


@click.command(cls=GroupedCommand)
@_flag("--generate", "Propose an assignment that spreads topics over brokers; changes nothing.")
@_flag("--execute", "Start the moves of a file. With --progress, follow them until they are done.")
@_flag("--verify", "Show whether the moves of a file are done; when nothing moves, remove the throttles.")
@_flag("--cancel", "Stop moves: of a file, of topics, of single partitions.")
@_flag("--cancel-all", "Stop every move of the cluster.")
@_flag("--list", "List the moves in progress: all, or those of some topics or partitions.")
@_flag("--progress", "Follow moves until they are done: bytes, rate, time left. Ctrl-C stops watching only.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Any brokers of the cluster, or its controller.")
@click.option("--config", type=FILE, help="A controller's properties file, instead of --bootstrap-server.")
@click.option("--command-config", type=FILE, help="Properties file of a Kafka Java client: security, timeouts.")
@click.option("--zookeeper", metavar="HOST:PORT,...", help="Deprecated: work through ZooKeeper, as Kafka 2.8 did.")
@click.option(
    "--timeout",
    type=at_least(1),
    metavar="MS",
    help=f"How long to look for a controller (default.api.timeout.ms, {DEFAULT_API_TIMEOUT_MS}), and to wait for moves "
    f"between log directories to start ({DEFAULT_MOVE_TIMEOUT_MS}).",
)
@click.option("--reassignment-json-file", type=FILE, help="Moves, in the format shown below.")
@click.option("--topic", multiple=True, metavar="TOPIC", help="For --list, --cancel, --progress; may be repeated.")
@click.option("--partition", multiple=True, type=INTEGER, metavar="N", help="Of the one --topic; may be repeated.")
@click.option("--request", type=INTEGER, metavar="ID", help="The moves and the status of one request. *")
@click.option("--topics-to-move-json-file", type=FILE, help='{"version":1,"topics":[{"topic":"orders"}]}')
@click.option("--broker-list", metavar="1,2,3", help="Brokers to place these topics on.")
@_flag("--disable-rack-aware", "Ignore the brokers' racks.")
@_flag("--additional", "Add to moves in progress, or resubmit them to change their throttle.")
@_flag("--partial", "Of a file that `plan` made: execute what has not changed since.")
@click.option("--throttle", type=at_least(NO_THROTTLE), metavar="BYTES/S", help="For copies between brokers.")
@click.option(
    "--replica-alter-log-dirs-throttle",
    type=at_least(NO_THROTTLE),
    metavar="BYTES/S",
    help="For copies between the directories of one broker.",
)
@click.option("--reason", metavar="TEXT", help="Why; kept with the request, and shown with it. *")
@click.option(
    "--give-up-after",
    type=DURATION,
    metavar="TIME",
    help="Drop moves that have not begun by then, such as 30m, 6h or 2d, whatever the setting; 0: they wait. *",
)
@_flag("--preserve-throttles", "Keep throttles.")
@_flag("--gentle", "Keep added replicas that are in sync; stop only the others. *")
@_flag("--force", "Even if this stops the only in-sync replicas; records may be lost. *")
@click.option("--output", type=Judged(click.Choice(["text", "json"])), default="text", show_default=True)
@click.option("--interval", type=Judged(click.FloatRange(min=0.1)), metavar="S", help="Seconds between updates.")
@click.version_option(package_name="kafka-zk-controller", prog_name="kafka-zk-controller")
def reassign(config: Path | None, **given: object) -> None:
    """Move partitions: plan, execute, follow, verify, cancel.

    Takes the options of kafka-reassign-partitions.sh and prints its answers, with this controller and with Kafka's own.
    Options marked * require this controller.

    \b
      kafka-zk-controller reassign --bootstrap-server kafka1:9092 \\
          --generate --topics-to-move-json-file topics.json --broker-list 1,2,3
      kafka-zk-controller reassign --bootstrap-server kafka1:9092 \\
          --execute --reassignment-json-file moves.json --throttle 50000000 --progress
      kafka-zk-controller reassign --bootstrap-server kafka1:9092 --list
      kafka-zk-controller reassign --bootstrap-server kafka1:9092 --verify --reassignment-json-file moves.json
      kafka-zk-controller reassign --bootstrap-server kafka1:9092 --cancel --topic orders --partition 3 --gentle

    \b
    A file of moves; "log_dirs" may be left out:
      {"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [3, 1], "log_dirs": ["any", "/disk2"]}]}

    Exit codes: 0 done, 1 refused or failed (the answer names each partition), 2 invalid options or file, 3 the cluster
    cannot be reached, 130 interrupted. --verify exits with 0 even while moves are in progress, as Kafka's tool does;
    --progress exits with 0 when every move has finished as requested.
    """
    given |= {name: None for name in THROTTLES if given[name] == NO_THROTTLE}
    files = {name: InputFile(path) for name, path in given.items() if isinstance(path, Path)}
    named = ControllerConfig(config) if isinstance(config, Path) else config
    options = Options(config=named, **given | files)  # type: ignore[arg-type]  # click has checked each
    answer = Answer(is_json=options.output == "json")
    clock = Clock(time.monotonic, time.sleep)
    try:
        action = demand_sound(options, mistakes_in((config, *given.values())))
        cluster = connect(options.connection, answer)
        try:
            _act(cluster, action, options, answer, clock)
        finally:
            cluster.close()
    except Stopped as reason:
        answer.stop(reason)
    except KeyboardInterrupt:
        answer.warn("interrupted; moves that have started continue, --list shows them")
        answer.exit_code = INTERRUPTED
    sys.exit(answer.end())


def _act(cluster: Cluster, action: str, options: Options, answer: Answer, clock: Clock) -> None:
    if action == "generate":
        assert options.topics_to_move_json_file is not None, "demand_sound"
        assert options.broker_list is not None, "demand_sound"
        proposal = Proposal(options.topics_to_move_json_file, options.broker_list, not options.disable_rack_aware)
        generate(cluster, proposal, answer, random.Random())
    elif action == "execute":
        _execute(cluster, options, answer, clock)
    elif action == "verify":
        assert options.reassignment_json_file is not None, "demand_sound"
        verify(cluster, options.reassignment_json_file, preserve_throttles=options.preserve_throttles, answer=answer)
    elif action in ("cancel", "cancel_all"):
        asked = Cancellation(options.selection, options.mode, options.preserve_throttles, options.move_timeout_ms)
        cancel(cluster, asked, answer, clock)
    elif action == "list":
        show_moves(cluster, options.selection, options.request, answer)
    else:
        _watch(cluster, Watch(options.selection, options.request), options, answer, clock)


def _execute(cluster: Cluster, options: Options, answer: Answer, clock: Clock) -> None:
    assert options.reassignment_json_file is not None, "demand_sound"
    if options.mode is not None:
        demand_mode(cluster.listing(()), options.mode)
    asked = Execution(
        options.reassignment_json_file,
        options.additional,
        options.throttle,
        options.replica_alter_log_dirs_throttle,
        options.move_timeout_ms,
        options.mode,
        options.partial,
        options.reason,
        options.give_up_after,
    )
    plan = execute(cluster, asked, answer, clock)
    if options.progress:
        _watch(cluster, Watch(options.selection, expected=plan.targets), options, answer, clock)


def _watch(cluster: Cluster, asked: Watch, options: Options, answer: Answer, clock: Clock) -> None:
    """Show bars on a terminal, one document a line as JSON, lines elsewhere."""
    first = first_listing(cluster, asked)
    if not wanted_moves(first, asked) and not asked.expected:
        answer.say("No partition reassignments found." if first.request is None else request_sentence(first.request))
        answer.document |= {"is_done": True, "moving": [], "ended": []}
        return
    note = None if first.controller is not None else COMPUTED
    console = Console()
    is_terminal = sys.stdout.isatty() and not console.is_dumb_terminal and not answer.is_json
    view: View = Documents() if answer.is_json else Bars(console, note) if is_terminal else Lines()
    if note and not is_terminal and not answer.is_json:
        answer.warn(f"note: {note}")
    default = 1.0 if is_terminal else _LINES_INTERVAL_S
    watched = Watch(asked.selection, asked.request_id, asked.expected, options.interval or default)
    answer.stream()
    try:
        answer.exit_code = watch(cluster, watched, first, view, clock)
    except KeyboardInterrupt:
        answer.exit_code = INTERRUPTED
        answer.warn("stopped watching; the moves continue: --progress shows them again, --cancel stops them")
