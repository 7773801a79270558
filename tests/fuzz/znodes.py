"""Does any world of hostile znodes cost a healthy topic its leader, or a controller its term?

Each world has healthy topics on three brokers, and beside them invalid znodes: captures of real
ones, mutated; strange names; unreadable znodes. A controller is elected into it, lives through more of the
same, and another one follows. Decoders, reader, state and machine are the real ones; ZooKeeper and brokers are those of
the scenarios.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import traceback
from collections.abc import Sequence
from random import Random

import click
from msgspec import Struct
from rich.progress import track

from controller.core.machine import Machine
from controller.core.messages.effects import Commit, Effect, Tell
from controller.core.messages.events import Event
from controller.process.lifetime import COLLECTION_THRESHOLDS
from tests.fuzz.captures import captured
from tests.fuzz.mutations import hostile
from tests.scenarios.commands import obey
from tests.scenarios.theatre import OWN_ID, Theatre
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData, parent_of
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Registration
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Topic

SOUND = ("sound", "sound_2")
TRUSTY = (1, 2, 3)  # broker 4 is the one whose registration is written to
REST = "time +40s"

# The paths to write to.
PLACES = (
    "/brokers/topics/sick",
    "/brokers/topics/sick-2",
    "/brokers/topics/sick/partitions/0/state",
    "/brokers/topics/sick/partitions/1/state",
    "/brokers/topics/sick/partitions/2147483647/state",
    "/brokers/topics/sick-2/partitions/0/state",
    "/brokers/ids/4",
    "/brokers/ids/5",
    "/brokers/ids/2147483647",
    f"/brokers/ids/{OWN_ID}",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
    "/admin/delete_topics/sick",
    "/admin/delete_topics/nobody",
    "/isr_change_notification/isr_change_0000000000",
    "/log_dir_event_notification/log_dir_event_0000000000",
    "/config/changes/config_change_0000000000",
    "/config/topics/sick",
    "/config/topics/sound",
    "/kafka_zk_controller/replica_deletions/sound",
    "/admin/reassignments/sound-0",
    "/config/brokers/<default>",
    "/feature",
    "/kafka_zk_controller/replica_deletions/sick",
    "/kafka_zk_controller/replica_deletions/nobody",
    "/latest_producer_id_block",
    "/admin/reassign_partitions_status",
    "/admin/reassign_partitions_status/1",
    "/admin/reassign_partitions_status/2147483647",
    "/admin/reassignments",
    "/admin/reassignments/sick-0",
    "/admin/reassignments/nobody-7",
    "/delegation_token/tokens/a",
    "/kafka-acl/Topic/sick",
    "/kafka-acl-extended/prefixed/Cluster/kafka",
)
STRANGERS = (
    "/brokers/topics/{}",
    "/brokers/topics/sick/partitions/{}/state",
    "/brokers/topics/sick/{}",
    "/brokers/ids/{}",
    "/admin/delete_topics/{}",
    "/admin/reassignments/{}",
    "/admin/reassign_partitions_status/{}",
    "/isr_change_notification/{}",
    "/log_dir_event_notification/{}",
    "/config/changes/{}",
    "/delegation_token/tokens/{}",
    "/kafka-acl/Group/{}",
    "/kafka_zk_controller/replica_deletions/{}",
)
NAMES = (
    "x",
    "-1",
    "1099511627776",
    "007",
    "٣",
    "a b",
    "a\nb",
    "größe",
    "..",
    "a-",
    "-0",
    "%s",
    "n" * 250,
    "n" * 999_300,
)
FOLDERS = (
    "/admin/delete_topics",
    "/admin/reassign_partitions_status",
    "/admin/reassignments",
    "/kafka_zk_controller/replica_deletions",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/config/changes",
    "/delegation_token/tokens",
    "/kafka-acl/Topic",
)

# Values that the captures lack, by kind of znode.
_OURS = {
    "TopicDeletion": (b"",),
    "LogDirEvent": (b'{"version":1,"broker":4,"event":1}',),
    "DefaultBrokerConfig": (b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}',),
    "ReplicaDeletions": (b'{"version":1,"topic_id":null,"replicas":{"0":[4],"1":[1,4]}}',),
    "StatusRoot": (b'{"version":1,"last_request_id":3}',),
    "ReassignmentStatus": (
        b'{"request_id":1,"origin":"o","requested_ms":1,"updated_ms":2,"finished_ms":null,"counts":{"in progress":1},'
        b'"topics":[{"topic":"sick","partitions":[{"partition":0,"replicas":[1,4],"progress":{"request_id":1,'
        b'"stage":"copying","since_ms":1,"replicas":[{"broker":4,"copied_bytes":1}]}}]}],"version":1}',
    ),
    "Reassignments": (b'{"version":1,"controller_epoch":0}',),
    "Reassignment": (b'{"version":1,"assignment":[4,1]}',),
    "DelegationToken": (b'{"version":1,"owner":"User:a","expiryTimestamp":1,"maxTimestamp":9,"tokenId":"a"}',),
    "Acl": (b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","operation":"Alter","host":"*"}]}',),
    "LegacyReassignment": (b'{"version":1,"partitions":[{"topic":"sick","partition":0,"replicas":[4,1]}]}',),
    "PreferredElection": (b'{"version":1,"partitions":[{"topic":"sick","partition":0}]}',),
    "IsrChange": (b'{"version":1,"partitions":[{"topic":"sick","partition":0}]}',),
    "Topic": (
        b'{"version":2,"partitions":{"0":[4,1],"1":[1,2],"2147483647":[3]},"adding_replicas":{"0":[4]},'
        b'"removing_replicas":{"1":[2]}}',
    ),
    "State": (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1,2]}',
        b'{"controller_epoch":1,"leader":4,"version":1,"leader_epoch":2147483645,"isr":[4]}',
    ),
    "ConfigChange": (b'{"version":2,"entity_path":"topics/sick"}',),
    "TopicConfig": (b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}',),
    "ProducerIdBlock": (b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}',),
    "Feature": (b'{"features":{},"version":1,"status":1}',),
    "Broker": (b'{"version":5,"endpoints":["PLAINTEXT://h:9"],"listener_security_protocol_map":{},"features":{}}',),
}


class Broken(AssertionError):
    """A world broke a promise."""


class Stage(Theatre):
    """Records only why a term ended."""

    def __init__(self) -> None:
        super().__init__()
        self.end: str | None = None
        self.longest_turn_s = 0.0

    def say(self, line: str) -> None:
        """Only the end of a term matters here."""
        if line.strip().startswith(("step down", "drained", "fenced")):
            self.end = line.strip()

    def _turn(self, machine: Machine, events: Sequence[Event]) -> Sequence[Effect]:
        began = time.thread_time()
        effects = machine.turn(events, self.now)
        self.longest_turn_s = max(self.longest_turn_s, time.thread_time() - began)
        return effects

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if self.machine is None:
                return
            if isinstance(effect, Tell):
                self._obey(effect)
            else:
                self._carry_out_one(effect)
        self.output.clear()

    def _commit(self, commit: Commit) -> None:
        self._write(commit, self.trouble.popleft() if self.trouble else "")


class World:
    """One world: everything in it follows from its seed."""

    def __init__(self, seed: int) -> None:
        """Healthy topics, and hostile znodes beside them."""
        self.story: list[str] = []
        self._random = random = Random(seed)
        self._stage = Stage()
        self._do(f"set keeps_reassignment_znodes={random.choice(('true', 'false'))} token_expiry_check_s=60")
        if random.random() < 0.3:
            self._do("set unclean_election=true")
        self._do("brokers 1,2,3,4")
        for topic in SOUND:
            partitions = [f"{n}={self._replicas()}" for n in range(random.randint(1, 3))]
            self._do(f"topic {topic} {' '.join(partitions)}")
        if random.random() < 0.7:
            self._do("topic sick 0=1,4 1=4,2")

    def live(self) -> None:
        """Elect, disturb, look; twice.

        Raises:
            Broken: a term ended, or a healthy partition is not led.
            Exception: whatever the controller raised.
        """
        random = self._random
        for _ in range(random.randint(1, 6)):
            self._write_something()
        for _ in range(2):
            self._do("elect")
            for _ in range(random.randint(1, 5)):
                self._disturb()
            self._do(f"broker 1 {'bounces' if BrokerId(1) in self._stage.brokers else 'returns'}", REST)
            self._look()

    @property
    def longest_turn_s(self) -> float:
        """The processor time of the machine's longest turn."""
        return self._stage.longest_turn_s

    def _replicas(self) -> str:
        return ",".join(map(str, self._random.sample(TRUSTY, self._random.randint(2, 3))))

    def _do(self, *commands: str) -> None:
        for command in commands:
            self.story.append(command)
            obey(self._stage, command)
            self._must_lead()

    # ---- what is done to it ---------------------------------------------------------------------------------

    def _disturb(self) -> None:
        random = self._random
        match random.randrange(10):
            case 0 | 1 | 2 | 3:
                self._write_something()
            case 4:
                self._broker()
            case 5:
                topic = random.choice((*SOUND, "sick"))
                self._do(f"ask reassign {topic}-0 to={self._replicas()}")
            case 6:
                self._do(random.choice(("lose reply", "lose request")))
            case 7:
                path = random.choice([path for path in PLACES if "sound" not in path])
                self._do(f"{random.choice(('refuse', 'refuse', 'allow'))} {path}")
            case 8:
                self._do(f"time +{random.choice((1, 10, 70))}s")
            case _:
                self._do("producer ids 1" if BrokerId(1) in self._stage.brokers else "ask list")

    def _broker(self) -> None:
        broker = BrokerId(self._random.choice((*TRUSTY, 4)))
        verb = "bounces" if self._random.random() < 0.6 else "dies"
        if broker not in self._stage.brokers:
            verb = "returns"
        self._do(f"broker {broker} {verb}")

    def _write_something(self) -> None:
        random = self._random
        chance = random.random()
        if chance < 0.15:
            self._put(random.choice(STRANGERS).format(random.choice(NAMES)), random.choice((b"", b"{}", b"\xff")))
        elif chance < 0.3:
            path = random.choice((*FOLDERS, *PLACES))
            self._make(path)
            self._hide(path)
        else:
            path = random.choice(PLACES)
            kind = catalog.kind_of(_address(path))
            sound = random.choice((*captured().get(kind, ()), *_OURS.get(kind, ())))
            for name in (b'"orders"', b'"sick"'):
                sound = sound.replace(name, json.dumps(random.choice((*SOUND, "sick", "nobody"))).encode())
            self._put(path, hostile(random, sound) if random.random() < 0.9 else sound)

    def _make(self, path: str) -> None:
        self.story.append(f"make {path[:99]}")
        zookeeper = self._stage.zookeeper
        missing = [path]
        while (parent := parent_of(missing[-1])) not in zookeeper.nodes:
            missing.append(parent)
        is_own = path == f"/brokers/ids/{OWN_ID}"  # which other clients may write, but not create
        if is_own or path in zookeeper.nodes or zookeeper.nodes[parent].owner:
            return
        for each in reversed(missing):
            zookeeper.write(self._stage.world, MakeNode(each))
        self._stage.run()

    def _hide(self, path: str) -> None:
        hidden = self._stage.zookeeper.hidden
        if path in hidden:
            hidden.discard(path)
        else:
            hidden.add(path)
        self.story.append(f"{'hide' if path in hidden else 'show'} {path}")

    def _put(self, path: str, data: bytes) -> None:
        self.story.append(f"put {path[:99]} {data[:200]!r}")
        zookeeper, world = self._stage.zookeeper, self._stage.world
        node = zookeeper.nodes.get(path)
        if self._random.random() < 0.1 and node is not None and not node.children and not node.owner:
            zookeeper.write(world, RemoveNode(path))
            self._stage.run()
        self._make(path)
        if path in zookeeper.nodes:
            zookeeper.write(world, SetData(path, data))
            self._stage.run()
        self._must_lead()

    # ---- what must hold -------------------------------------------------------------------------------------

    def _must_lead(self) -> None:
        if self._stage.end is not None:
            raise Broken(self._stage.end)

    def _look(self) -> None:
        for topic in SOUND:
            for number in self._topic(topic).partitions:
                self._look_at(f"/brokers/topics/{topic}/partitions/{number}/state")

    def _look_at(self, path: str) -> None:
        node = self._stage.zookeeper.nodes.get(path)
        state = None if node is None else self._value(path)
        if not isinstance(state, PartitionState):
            raise Broken(f"{path} holds {state}")
        live = [broker for broker in state.isr if self._is_live(broker)]
        if live and state.leader not in live:
            raise Broken(f"{path} is not led: leader={state.leader} isr={state.isr}, of which {live} are live")

    def _is_live(self, broker: int) -> bool:
        """Whether a controller can know of it, even one that took over while its registration was hidden."""
        path = f"/brokers/ids/{broker}"
        return (
            broker in self._stage.brokers
            and path not in self._stage.zookeeper.hidden
            and isinstance(self._value(path), Registration)
        )

    def _topic(self, name: str) -> Topic:
        value = self._value(f"/brokers/topics/{name}")
        if not isinstance(value, Topic):
            raise Broken(f"topic {name} is {value}")
        return value

    def _value(self, path: str) -> object:
        return catalog.decode(_address(path), self._stage.zookeeper.nodes[path].data)


def _address(path: str) -> catalog.Address:
    address = catalog.address_of(path)
    assert address is not None
    return address


class Tally(Struct):
    """The outcomes of many worlds."""

    worlds: int = 0
    failed: int = 0
    longest_turn_s: float = 0.0


@click.command()
@click.option("--worlds", default=2_000, help="How many worlds to live through.")
@click.option("--minutes", type=float, help="Stop after so long.")
@click.option("--start", default=0, help="The first seed.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first seed that fails.")
def command(worlds: int, minutes: float | None, start: int, *, keep_going: bool) -> None:
    """Hostile znodes beside healthy topics; prints the story of a world that breaks a promise."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    tally, began = Tally(), time.monotonic()
    numbers = range(start, start + worlds)
    for seed in track(numbers, description="worlds", disable=not sys.stderr.isatty()):
        if minutes is not None and time.monotonic() - began > minutes * 60:
            break
        tally.worlds += 1
        tally.failed += not is_kept(seed, tally)
        if tally.failed and not keep_going:
            break
    rate = tally.worlds / (time.monotonic() - began)
    click.echo(f"{tally.worlds - tally.failed} of {tally.worlds} worlds kept every promise ({rate:.0f} a second)")
    click.echo(f"the longest turn took {tally.longest_turn_s * 1000:.0f} ms of processor time")
    sys.exit(1 if tally.failed else 0)


def is_kept(seed: int, tally: Tally) -> bool:
    """Whether a world keeps every promise; prints its story otherwise."""
    world: World | None = None
    try:
        world = World(seed)
        world.live()
        tally.longest_turn_s = max(tally.longest_turn_s, world.longest_turn_s)
    except Exception as error:
        click.echo("\n".join([] if world is None else world.story))
        click.echo("".join(traceback.format_exception(error)[-4:]))
        click.echo(f"seed {seed} breaks a promise: {type(error).__name__}: {error!s:.300}")
        return False
    return True
