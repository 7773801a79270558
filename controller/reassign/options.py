"""Which options of `kafka-zk-controller reassign` go together, and what is wrong with those that were given?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from controller.reassign.client_properties import read_client_properties
from controller.reassign.cluster import Mode
from controller.reassign.connecting import Connection
from controller.reassign.controller_config import ControllerConfig
from controller.reassign.executing import read_plan_file
from controller.reassign.input_file import InputFile
from controller.reassign.option_values import server_mistakes, zookeeper_mistakes
from controller.reassign.plans import as_lines, demand_executable, read_brokers, read_topics
from controller.reassign.refusals import Unusable
from controller.reassign.selecting import Selection
from zk_layout.ids import PartitionId, TopicName
from zk_layout.znodes.move_records import mistake_in_reason

ACTIONS = ("generate", "execute", "verify", "cancel", "cancel_all", "list", "progress")
_CONNECTION = frozenset({"bootstrap_server", "config", "command_config", "timeout", "output"})
MOVES_FILE = "reassignment_json_file"
_REQUIRED = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": (MOVES_FILE,),
    "verify": (MOVES_FILE,),
}
_PERMITTED = {
    "generate": {"zookeeper", "disable_rack_aware"},
    "execute": {
        *("zookeeper", "additional", "partial", "throttle", "replica_alter_log_dirs_throttle"),
        *("progress", "interval", "force", "reason", "give_up_after"),
    },
    "verify": {"zookeeper", "preserve_throttles"},
    "cancel": {MOVES_FILE, "topic", "partition", "preserve_throttles", "gentle", "force"},
    "cancel_all": {"preserve_throttles", "gentle", "force"},
    "list": {"topic", "partition", "request"},
    "progress": {MOVES_FILE, "topic", "partition", "request", "interval"},
}
_NEEDS_BOOTSTRAP = (
    *("additional", "command_config", "replica_alter_log_dirs_throttle", "progress", "force"),
    *("reason", "give_up_after"),
)
DEFAULT_MOVE_TIMEOUT_MS = 10_000


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
    partial: bool
    throttle: int | None
    replica_alter_log_dirs_throttle: int | None
    preserve_throttles: bool
    gentle: bool
    force: bool
    reason: str | None
    give_up_after: int | None
    output: str
    interval: float | None

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that were given."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return frozenset(n for n, value in values.items() if value is not None and value is not False and value != ())

    @property
    def connection(self) -> Connection:
        """How the cluster is reached."""
        return Connection(self.bootstrap_server, self.config, self.command_config, self.zookeeper, self.timeout)

    @property
    def is_through_brokers(self) -> bool:
        """Whether brokers are asked, rather than ZooKeeper."""
        return self.connection.is_through_brokers

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
        """How long to wait for moves between directories to start."""
        return DEFAULT_MOVE_TIMEOUT_MS if self.timeout is None else self.timeout


def demand_sound(options: Options, mistakes: list[str]) -> str:
    """The action, if the options are valid; `mistakes` are those of single values.

    Raises:
        Unusable: lists everything that is wrong, before any request to a cluster.
    """
    actions = [name for name in ACTIONS if getattr(options, name)]
    if "execute" in actions and "progress" in actions:
        actions.remove("progress")
    if len(actions) != 1:
        raise Unusable(
            as_lines([*mistakes, f"Command must include exactly one action: {', '.join(map(option, ACTIONS))}"])
        )
    (action,) = actions
    if mistakes := [*mistakes, *_mistakes(action, options), *_unreadable(action, options)]:
        raise Unusable(as_lines(mistakes))
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
    if options.reason is not None and (mistake := mistake_in_reason(options.reason)) is not None:
        yield f"--reason {mistake}"
    if options.bootstrap_server is not None:
        yield from server_mistakes(options.bootstrap_server)
    if options.zookeeper is not None:
        yield from zookeeper_mistakes(options.zookeeper)


def _out_of_place(action: str, options: Options) -> Iterator[str]:
    allowed = {action, *_CONNECTION, *_REQUIRED.get(action, ()), *_PERMITTED[action]}
    if options.is_through_brokers:
        allowed.add("zookeeper")
    for foreign in sorted(options.given - allowed):
        yield f'Option "{option(foreign)}" can\'t be used with action "{option(action)}"'
    for name in () if options.is_through_brokers else _NEEDS_BOOTSTRAP:
        if name in options.given & allowed:
            yield f'You must specify --bootstrap-server when using "[{option(name)[2:]}]"'


def _unreadable(action: str, options: Options) -> Iterator[str]:
    """What is wrong with each file and list that was named; reads every one."""
    reads: list[Callable[[], object]] = []
    if isinstance(topics := options.topics_to_move_json_file, InputFile):
        reads.append(lambda: read_topics(topics.read_bytes(), topics.name))
    if (brokers := options.broker_list) is not None:
        reads.append(lambda: read_brokers(brokers))
    if isinstance(plan := options.reassignment_json_file, InputFile):
        reads.append(lambda: _read_moves(plan, action))
    if isinstance(properties := options.command_config, InputFile):
        reads.append(lambda: read_client_properties(properties))
    if isinstance(config := options.config, ControllerConfig):
        reads.append(lambda: config.zookeeper)
    for read in reads:
        try:
            read()
        except Unusable as mistake:
            yield str(mistake)


def _read_moves(plan: InputFile, action: str) -> None:
    moves = read_plan_file(plan)
    if action == "execute":
        demand_executable(moves, plan.name)


def option(name: str) -> str:
    """An option as it is typed.

    >>> option("cancel_all")
    '--cancel-all'
    """
    return f"--{name.replace('_', '-')}"
