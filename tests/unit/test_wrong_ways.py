"""docs/wrong-ways.md: each mistake is made here, and what is said is what the page says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import to_builtins
from msgspec.structs import replace
from structlog.testing import capture_logs

from controller.__main__ import main
from controller.commands.handover import Leadership
from controller.commands.pausing import Outcome
from controller.core.candidacy.events import IdClash, Watching
from controller.core.candidacy.phases import TakeOver
from controller.core.messages.effects import Notice
from controller.core.messages.outbox import Outbox
from controller.core.reassignment.pausing import refusal
from controller.core.transactions.losses import LOSSES_TO_BLAME, Losses
from controller.core.transactions.proposal import topic_subject
from controller.core.transactions.sizes import RequestSizes
from controller.first_settings.found import ClusterSeen
from controller.process.pause_seen import PauseSeen
from controller.process.replica_znode import SAME_ID_AFTER_S
from controller.settings.kinds import AUTHORIZERS
from controller.zk.protocol import SetData
from controller.zk.read_only import ReadOnlyBridge, WouldWrite
from tests.unit.core.candidacies import NATIVE, RELEASED, TO_LEAD, Replica, mine
from tests.unit.http.serving import LEADING
from tests.unit.preflight.test_wrong_starts import ORDERS, on
from tests.unit.preflight.world import KAFKA_2_4, Broker, World
from tests.unit.process.test_replica_znode import Standby, goes_on
from tests.unit.process.test_rereading import AT_FIRST
from tests.unit.process.test_rereading import Process as Edited
from tests.unit.zk.simulated import Ensemble, Process
from zk_layout.ids import BrokerId, ControllerEpoch, TopicName, ZnodeVersion
from zk_layout.znodes import replicas
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.migration import Migration, MigrationAddress
from zk_layout.znodes.pause import Pause
from zk_layout.znodes.release import Release
from zk_layout.znodes.topics import TopicAddress

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?P<wrong>[^|]+) \| (?P<happens>[^|]+) \| (?P<said>[^|]+) \|$", re.MULTILINE)
ALERT = re.compile(r"alert `(\w+)`")
ELSEWHERE = re.compile(
    r"`(--check-cluster|init|pause|/readyz|/leader|status( --zookeeper …)?|reason|warnings|migration --check)`"
)
NOTICE = re.compile(r"notice `([^`]+)`")


def rows() -> dict[str, str]:
    """What is said to each mistake."""
    found = {row["wrong"].replace("`", ""): row["said"] for row in ROW.finditer(_page())}
    return {wrong: said for wrong, said in found.items() if not wrong.startswith(("---", "what is done"))}


def _page() -> str:
    return (ROOT / "docs" / "wrong-ways.md").read_text(encoding="utf-8")


def may_write(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    """Its checks say what the user may; its session says no."""
    process = Process(Ensemble(), new_bridge=ReadOnlyBridge)
    with pytest.raises(WouldWrite) as refused:
        process.bridge.submit(SetData("/controller_epoch", b"9", ZnodeVersion(0)), lambda _: None)
    process.end()
    return "\n".join([*texts(World().runs(Broker())), str(refused.value)])


def texts(world: World) -> list[str]:
    """What the checks of a replica that may lead say."""
    return [finding.text for finding in world.passes().findings]


def file_exists(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    out, broker = folder / "controller.properties", folder / "server.properties"
    out.write_text("mine")
    broker.write_text("zookeeper.connect=127.0.0.1:1\nlisteners=PLAINTEXT://:9092\n")
    monkeypatch.setattr("controller.commands.init.look", lambda _: None)
    answer = CliRunner().invoke(main, ["init", f"--server-properties={broker}", f"--out={out}", "--host=here"])
    assert (answer.exit_code, out.read_text()) == (1, "mine")
    return answer.stderr


def two_inits(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Each on its host, before a replica has run with what the other wrote."""
    broker = folder / "server.properties"
    broker.write_text("zookeeper.connect=127.0.0.1:1\nlisteners=PLAINTEXT://:9092\n")
    monkeypatch.setattr("controller.commands.init.look", lambda _: ClusterSeen())
    answers = [
        CliRunner().invoke(main, ["init", f"--server-properties={broker}", f"--out={folder / host}", f"--host={host}"])
        for host in ("one", "two")
    ]
    assert [answer.exit_code for answer in answers] == [0, 0], [answer.output for answer in answers]
    assert [(folder / host).read_text().count("\nbroker.id=901\n") for host in ("one", "two")] == [1, 1]
    return "\n".join([answers[1].stdout, same_id_leads(monkeypatch, folder)])


def same_id_leads(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    world = World().runs(Broker())
    other = Registration((Endpoint("PLAINTEXT", "elsewhere", 9095),), is_ours=True)
    world.has(other, BrokerAddress(BrokerId(901)))
    clash = world.until(IdClash)
    replica = Replica()
    replica.hears(clash)
    return "\n".join([*replica.complaints(), clash.reason])


def same_id_stands_by(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    ensemble = Ensemble()
    ensemble.zookeeper.make_path(replicas.ROOT)
    Standby(ensemble, 9640)
    goes_on(ensemble, 3.0)
    second = Standby(ensemble, 9641)
    goes_on(ensemble, 2 * SAME_ID_AFTER_S)
    return "\n".join(second.troubles.now())


def id_of_a_broker(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    return World().runs(Broker()).has(on(1, 901), ORDERS).refusal()


def shown(monkeypatch: pytest.MonkeyPatch, leadership: Leadership) -> str:
    """What `status` shows."""
    monkeypatch.setattr("controller.commands.status.at_zookeeper", lambda *_: leadership)
    return CliRunner().invoke(main, ["status", "--zookeeper", "zk1:2181"]).stdout


def one_replica(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    alone: dict[BrokerId, replicas.Replica | None] = {BrokerId(901): replicas.Replica("active", True, 0)}
    return shown(monkeypatch, Leadership(BrokerId(901), True, ControllerEpoch(8), None, alone))


def wrong_chroot(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    world = World("zookeeper.connect=simulated:2181/kafak")
    world.write("/kafka/cluster/id", b"{}")
    return world.refusal()


def protocol_not_understood(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    return World().runs(Broker(KAFKA_2_4, protocol=None)).refusal()


def protocol_too_new(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    return World().runs(Broker(protocol="2.8-IV1")).refusal()


def no_authorizer(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    return World().runs(*(Broker(authorizer=AUTHORIZERS[0]) for _ in range(2))).refusal()


def native_holds(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    replica = Replica(Watching(), NATIVE, take_over=TakeOver.WHEN_VACANT)
    assert replica.wake_at is None, "it waits for no moment"
    return replica.candidacy.reason


def released(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    replica = Replica(*TO_LEAD, RELEASED)
    at = Release("ann@h", 0)
    seen = Leadership(BrokerId(1), False, ControllerEpoch(8), at, {})
    return "\n".join([*replica.complaints(), shown(monkeypatch, seen)])


def forgotten_pause(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    by = Pause("ann@h", 1, "new disks")
    replica, seen = Replica(*TO_LEAD, replace(mine(), pause=by)), PauseSeen()
    seen.note(replace(mine(), pause=by))
    leads = Leadership(BrokerId(901), True, ControllerEpoch(8), None, {}, paused=by)
    told = (*replica.complaints(), str(seen.shown_in(LEADING).pause), refusal(by).message or "")
    return "\n".join([*told, shown(monkeypatch, leads)])


def pause_of_a_native(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    by = Pause("ann@h", 1, "new disks")
    outcome = Outcome(by, was_so=False, controller=BrokerId(1), is_ours=False, is_known=False)
    monkeypatch.setattr("controller.commands.pause.at_zookeeper", lambda *_: outcome)
    answer = CliRunner().invoke(main, ["pause", "--zookeeper", "zk1:2181"])
    assert answer.exit_code == 1
    leads = Leadership(BrokerId(1), False, ControllerEpoch(8), None, {}, paused=by)
    return "\n".join([answer.stdout, shown(monkeypatch, leads)])


def setting_needs_a_restart(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    async def story() -> list[str]:
        async with Edited(folder, AT_FIRST) as process:
            with capture_logs() as said:
                await process.hears_of({**AT_FIRST, "zookeeper.session.timeout.ms": "7000"})
            status = process.daemon.status()
            monkeypatch.setattr("controller.http.client.ask", lambda *_: to_builtins(status))
            return [*(str(line["event"]) for line in said), CliRunner().invoke(main, ["status"]).stdout]

    return "\n".join(asyncio.run(story()))


def lower_jute_maxbuffer(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    losses, out = Losses(RequestSizes(1 << 20)), Outbox(0.0, {})
    subject = TopicName("orders")
    for _times in range(LOSSES_TO_BLAME):
        losses.lost(900_000, topic_subject(subject), TopicAddress(subject).path, out)
    (notice,) = (effect for effect in out.effects if isinstance(effect, Notice))
    return f"{notice.kind}\n{notice.text}"


def clock_behind(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    world = World().runs(Broker())
    world.now_ms = -100_000
    return "\n".join(texts(world))


def stale_migration(monkeypatch: pytest.MonkeyPatch, _: Path) -> str:
    return "\n".join(texts(World().runs(Broker()).has(Migration(3000, 5, 812, 5), MigrationAddress())))


WAYS: Sequence[tuple[str, Callable[[pytest.MonkeyPatch, Path], str]]] = (
    ("observe with a user of ZooKeeper that may write", may_write),
    ("init into a file that exists", file_exists),
    ("init for a second replica before the first one has run", two_inits),
    ("two replicas with one broker.id, one of which leads", same_id_leads),
    ("two replicas with one broker.id, both in standby", same_id_stands_by),
    ("the id of a broker that is down", id_of_a_broker),
    ("one replica only", one_replica),
    ("the wrong chroot", wrong_chroot),
    ("an inter.broker.protocol.version above what brokers speak", protocol_not_understood),
    ("an inter.broker.protocol.version above what brokers are set to", protocol_too_new),
    ("no authorizer.class.name where brokers have one", no_authorizer),
    ("waiting for it to lead, with controller.takeover=when-vacant", native_holds),
    ("a release that was forgotten", released),
    ("a pause that was forgotten", forgotten_pause),
    ("a pause while a native controller leads", pause_of_a_native),
    ("a setting that was edited and needs a restart", setting_needs_a_restart),
    ("a jute.maxbuffer here above that of the ZooKeeper servers", lower_jute_maxbuffer),
    ("a host whose clock is behind", clock_behind),
    ("a /migration that a former migration left behind", stale_migration),
)


def test_every_wrong_way_of_the_page_is_gone_here() -> None:
    assert [wrong for wrong, _ in WAYS] == list(rows())


@pytest.mark.parametrize(("wrong", "goes"), WAYS, ids=[wrong for wrong, _ in WAYS])
def test_what_is_said_is_what_the_page_says(
    wrong: str, goes: Callable[[pytest.MonkeyPatch, Path], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = rows()[wrong]
    words = re.findall(r"`([^`]+)`", ELSEWHERE.sub("", ALERT.sub("", expected)))
    assert words, "the page says where to look, and for what"

    said = goes(monkeypatch, tmp_path)

    for each in words:
        assert re.search(".*?".join(map(re.escape, each.split("…"))), said), f"{each}\nis not in\n{said}"


@pytest.mark.parametrize("alert", sorted(set(ALERT.findall(_page()))))
def test_an_alert_that_the_page_names_fires_in_a_situation_that_promtool_checks(alert: str) -> None:
    assert f"- alert: {alert}\n" in (ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8")
    situations = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "deploy").glob("*_test.yml"))
    assert f'alertname="{alert}"' in situations
