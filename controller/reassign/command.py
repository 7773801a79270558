"""The options of `kafka-zk-controller reassign`: which go together, and what each asks for."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from msgspec import Struct, structs
from rich.console import Console

from controller.reassign.answer import Answer
from controller.reassign.cancelling import Cancellation, cancel, demand_mode
from controller.reassign.client_properties import ClientSettings, read_client_properties
from controller.reassign.cluster import Cluster, Mode
from controller.reassign.controller_config import ControllerConfig
from controller.reassign.executing import Clock, Execution, execute, read_plan_file
from controller.reassign.generating import Proposal, generate
from controller.reassign.input_file import InputFile
from controller.reassign.listing import request_sentence, show_moves
from controller.reassign.plans import demand_executable, read_brokers, read_topics, told
from controller.reassign.refusals import INTERRUPTED, Stopped, Unusable
from controller.reassign.selecting import Selection
from controller.reassign.verifying import verify
from controller.reassign.views import Bars, Documents, Lines, View
from controller.reassign.watching import COMPUTED, Watch, first_listing, wanted_moves, watch
from zk_layout.ids import PartitionId, TopicName

ACTIONS = ("generate", "execute", "verify", "cancel", "cancel_all", "list", "progress")
_CONNECTION = frozenset({"bootstrap_server", "config", "command_config", "timeout", "output"})
_FILE = "reassignment_json_file"
_REQUIRED = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": (_FILE,),
    "verify": (_FILE,),
}
_PERMITTED = {
    "generate": {"zookeeper", "disable_rack_aware"},
    "execute": {
        *("zookeeper", "additional", "throttle", "replica_alter_log_dirs_throttle"),
        *("progress", "interval", "force"),
    },
    "verify": {"zookeeper", "preserve_throttles"},
    "cancel": {_FILE, "topic", "partition", "preserve_throttles", "gentle", "force"},
    "cancel_all": {"preserve_throttles", "gentle", "force"},
    "list": {"topic", "partition", "request"},
    "progress": {_FILE, "topic", "partition", "request", "interval"},
}
_NEEDS_BOOTSTRAP = ("additional", "command_config", "replica_alter_log_dirs_throttle", "progress", "force")
_DEFAULT_MOVE_TIMEOUT_MS = 10_000
_LINES_INTERVAL_S = 5.0
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
GROUPS = (
    ("Actions (exactly one)", ACTIONS),
    ("Which cluster", ("bootstrap_server", "config", "command_config", "zookeeper", "timeout")),
    ("Which partitions", (_FILE, "topic", "partition", "request")),
    ("For --generate", ("topics_to_move_json_file", "broker_list", "disable_rack_aware")),
    ("For --execute", ("additional", "throttle", "replica_alter_log_dirs_throttle")),
    ("For --verify and cancels", ("preserve_throttles", "gentle", "force")),
    ("How it is shown", ("output", "interval")),
)


class Options(Struct, frozen=True):
    """Every option as it was given."""

    generate: bool
    execute: bool
    verify: bool
    cancel: bool
    cancel_all: bool
    list: bool
    progress: bool
    bootstrap_server: str | None
    config: ControllerConfig | None
    command_config: InputFile | None
    zookeeper: str | None
    timeout: int | None
    reassignment_json_file: InputFile | None
    topic: tuple[str, ...]
    partition: tuple[int, ...]
    request: int | None
    topics_to_move_json_file: InputFile | None
    broker_list: str | None
    disable_rack_aware: bool
    additional: bool
    throttle: int | None
    replica_alter_log_dirs_throttle: int | None
    preserve_throttles: bool
    gentle: bool
    force: bool
    output: str
    interval: float | None

    @property
    def given(self) -> frozenset[str]:
        """The names of those that were used."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return frozenset(n for n, value in values.items() if value is not None and value is not False and value != ())

    @property
    def is_through_brokers(self) -> bool:
        """Whether they are asked, and not ZooKeeper in their place."""
        return self.bootstrap_server is not None or self.config is not None

    @property
    def selection(self) -> Selection:
        """The partitions named."""
        topics, partitions = map(TopicName, self.topic), map(PartitionId, self.partition)
        return Selection(self.reassignment_json_file, tuple(topics), tuple(partitions))

    @property
    def mode(self) -> Mode | None:
        """How copies are treated."""
        return Mode.GENTLE if self.gentle else Mode.FORCED if self.force else None

    @property
    def move_timeout_ms(self) -> int:
        """How long to wait for moves between directories to begin."""
        return _DEFAULT_MOVE_TIMEOUT_MS if self.timeout is None else self.timeout


class GroupedCommand(click.Command):
    """Help by purpose instead of one long list."""

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
@_flag("--execute", "Begin the moves of a file. With --progress, follow them until they are done.")
@_flag("--verify", "Say whether the moves of a file are done; when nothing moves, remove the throttles.")
@_flag("--cancel", "Stop moves: of a file, of topics, of single partitions.")
@_flag("--cancel-all", "Stop every move of the cluster.")
@_flag("--list", "List the moves in progress: all, or those of some topics or partitions.")
@_flag("--progress", "Follow moves until they are done: bytes, rate, time left. Ctrl-C stops watching only.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Any brokers of the cluster, or its controller.")
@click.option("--config", type=FILE, help="A controller's properties file, instead of --bootstrap-server.")
@click.option("--command-config", type=FILE, help="Properties file of a Kafka Java client: security, time-outs.")
@click.option("--zookeeper", metavar="HOST:PORT,...", help="Deprecated: work through ZooKeeper, as Kafka 2.8 did.")
@click.option(
    "--timeout",
    type=click.IntRange(min=1),
    metavar="MS",
    help="How long to look for a controller (default.api.timeout.ms, 60000), and to wait for moves between log "
    "directories to start (10000).",
)
@click.option("--reassignment-json-file", type=FILE, help="Moves, in the format shown below.")
@click.option("--topic", multiple=True, metavar="TOPIC", help="For --list, --cancel, --progress; may be repeated.")
@click.option("--partition", multiple=True, type=int, metavar="N", help="Of the one --topic; may be repeated.")
@click.option("--request", type=int, metavar="ID", help="The moves and the status of one request. *")
@click.option("--topics-to-move-json-file", type=FILE, help='{"version":1,"topics":[{"topic":"orders"}]}')
@click.option("--broker-list", metavar="1,2,3", help="Brokers to place these topics on.")
@_flag("--disable-rack-aware", "Ignore the brokers' racks.")
@_flag("--additional", "Add to moves in progress, or resubmit them to change their throttle.")
@click.option("--throttle", type=click.IntRange(min=0), metavar="BYTES/S", help="For copies between brokers.")
@click.option(
    "--replica-alter-log-dirs-throttle",
    type=click.IntRange(min=0),
    metavar="BYTES/S",
    help="For copies between the directories of one broker.",
)
@_flag("--preserve-throttles", "Keep throttles.")
@_flag("--gentle", "Keep added replicas that are in sync; stop only the others. *")
@_flag("--force", "Even if this stops the only in-sync replicas; records may be lost. *")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--interval", type=click.FloatRange(min=0.1), metavar="S", help="Seconds between updates.")
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
    files = {name: InputFile(path) for name, path in given.items() if isinstance(path, Path)}
    named = ControllerConfig(config) if config is not None else None
    options = Options(config=named, **given | files)  # type: ignore[arg-type]  # click has checked each
    answer = Answer(is_json=options.output == "json")
    clock = Clock(time.monotonic, time.sleep)
    try:
        action = demand_consistent(options)
        demand_readable(action, options)
        cluster = connect(options, answer)
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


def demand_consistent(options: Options) -> str:
    """The action, if everything given belongs to it.

    Raises:
        Unusable: no action or two, something lacking, or something that has no place here.
    """
    actions = [name for name in ACTIONS if getattr(options, name)]
    if "execute" in actions and "progress" in actions:
        actions.remove("progress")
    if len(actions) != 1:
        raise Unusable(f"Command must include exactly one action: {', '.join(map(option, ACTIONS))}")
    (action,) = actions
    if mistakes := list(_mistakes(action, options)):
        raise Unusable(told(mistakes))
    return action


def _mistakes(action: str, options: Options) -> Iterator[str]:
    if not options.is_through_brokers and options.zookeeper is None:
        yield "Please specify --bootstrap-server"
    if options.config is not None and (options.bootstrap_server or options.zookeeper) is not None:
        yield "--config names the cluster, and so does --bootstrap-server or --zookeeper: give one of them"
    if lacking := [name for name in _REQUIRED.get(action, ()) if name not in options.given]:
        yield f"{option(action)} needs {' and '.join(map(option, lacking))}"
    yield from _out_of_place(action, options)
    if options.gentle and options.force:
        yield "--gentle and --force contradict each other"
    if action == "cancel" and options.selection.is_everything:
        yield "--cancel needs --reassignment-json-file or --topic; --cancel-all stops everything"
    if options.partition and len(options.topic) != 1:
        yield "--partition needs exactly one --topic that it belongs to"


def _out_of_place(action: str, options: Options) -> Iterator[str]:
    allowed = {action, *_CONNECTION, *_REQUIRED.get(action, ()), *_PERMITTED[action]}
    if options.is_through_brokers:
        allowed.add("zookeeper")
    for foreign in sorted(options.given - allowed):
        yield f'Option "{option(foreign)}" can\'t be used with action "{option(action)}"'
    for name in () if options.is_through_brokers else _NEEDS_BOOTSTRAP:
        if name in options.given & allowed:
            yield f'You must specify --bootstrap-server when using "[{option(name)[2:]}]"'


def demand_readable(action: str, options: Options) -> None:
    """Read everything that was named, before a cluster is asked anything.

    Raises:
        Unusable: all that is wrong with the files and lists.
    """
    mistakes = []

    def attempt(read: Callable[[], object]) -> None:
        try:
            read()
        except Unusable as mistake:
            mistakes.append(str(mistake))

    if (topics := options.topics_to_move_json_file) is not None:
        attempt(lambda: read_topics(topics.read_bytes(), topics.name))
    if (brokers := options.broker_list) is not None:
        attempt(lambda: read_brokers(brokers))
    if (plan := options.reassignment_json_file) is not None:
        if action == "execute":
            attempt(lambda: demand_executable(read_plan_file(plan), plan.name))
        else:
            attempt(lambda: read_plan_file(plan))
    if (properties := options.command_config) is not None:
        attempt(lambda: read_client_properties(properties))
    if (config := options.config) is not None:
        attempt(lambda: config.zookeeper)
    if mistakes:
        raise Unusable("\n".join(mistakes))


def connect(options: Options, answer: Answer) -> Cluster:
    """The cluster, on the way that was named.

    Raises:
        Stopped: it cannot be reached, or not like this.
    """
    settings = ClientSettings()
    if options.command_config is not None:
        settings = read_client_properties(options.command_config)
        if settings.ignored:
            answer.warn(f"ignored, because they do not concern this tool: {', '.join(settings.ignored)}")
    if options.timeout is not None:
        settings = structs.replace(settings, timeout_ms=options.timeout)
    if not options.is_through_brokers:
        from controller.reassign import zookeeper_cluster

        answer.warn(zookeeper_cluster.DEPRECATED)
        assert options.zookeeper is not None, "demand_consistent"
        return zookeeper_cluster.ZooKeeperCluster(options.zookeeper, settings.timeout_ms)
    from controller.reassign import kafka_cluster

    if options.zookeeper is not None:
        from controller.reassign.zookeeper_cluster import IGNORED

        answer.warn(IGNORED)
    return kafka_cluster.KafkaCluster(_bootstrap_servers(options, settings), settings)


def _bootstrap_servers(options: Options, settings: ClientSettings) -> str:
    if options.config is None:
        assert options.bootstrap_server is not None, "demand_consistent"
        return options.bootstrap_server
    from controller.reassign.zookeeper_cluster import ZooKeeperCluster

    zookeeper = ZooKeeperCluster(options.config.zookeeper, settings.timeout_ms)
    try:
        return zookeeper.bootstrap_servers(settings.security_protocol)
    finally:
        zookeeper.close()


def option(name: str) -> str:
    """As it is typed.

    >>> option("cancel_all")
    '--cancel-all'
    """
    return f"--{name.replace('_', '-')}"


def _act(cluster: Cluster, action: str, options: Options, answer: Answer, clock: Clock) -> None:
    if action == "generate":
        assert options.topics_to_move_json_file is not None, "demand_consistent"
        assert options.broker_list is not None, "demand_consistent"
        proposal = Proposal(options.topics_to_move_json_file, options.broker_list, not options.disable_rack_aware)
        generate(cluster, proposal, answer, random.Random())
    elif action == "execute":
        _execute(cluster, options, answer, clock)
    elif action == "verify":
        assert options.reassignment_json_file is not None, "demand_consistent"
        verify(cluster, options.reassignment_json_file, preserve_throttles=options.preserve_throttles, answer=answer)
    elif action in ("cancel", "cancel_all"):
        asked = Cancellation(options.selection, options.mode, options.preserve_throttles, options.move_timeout_ms)
        cancel(cluster, asked, answer, clock)
    elif action == "list":
        show_moves(cluster, options.selection, options.request, answer)
    else:
        _watch(cluster, Watch(options.selection, options.request), options, answer, clock)


def _execute(cluster: Cluster, options: Options, answer: Answer, clock: Clock) -> None:
    assert options.reassignment_json_file is not None, "demand_consistent"
    if options.mode is not None:
        demand_mode(cluster.listing(()), options.mode)
    asked = Execution(
        options.reassignment_json_file,
        options.additional,
        options.throttle,
        options.replica_alter_log_dirs_throttle,
        options.move_timeout_ms,
        options.mode,
    )
    plan = execute(cluster, asked, answer, clock)
    if options.progress:
        _watch(cluster, Watch(options.selection, expected=plan.targets), options, answer, clock)


def _watch(cluster: Cluster, asked: Watch, options: Options, answer: Answer, clock: Clock) -> None:
    """On a terminal bars, as JSON a document a line, elsewhere lines."""
    first = first_listing(cluster, asked)
    if not wanted_moves(first, asked) and not asked.expected:
        answer.say("No partition reassignments found." if first.request is None else request_sentence(first.request))
        answer.document |= {"is_done": True, "moving": [], "ended": []}
        return
    note = None if first.controller is not None else COMPUTED
    is_terminal = sys.stdout.isatty() and not answer.is_json
    view: View = Documents() if answer.is_json else Bars(Console(), note) if is_terminal else Lines()
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
