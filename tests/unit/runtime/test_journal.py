"""What the journal records can be read back and replayed."""

from __future__ import annotations

import resource
import stat
from base64 import b64encode
from collections.abc import Sequence
from copy import copy
from pathlib import Path

import pytest

from controller.core.machine import Machine
from controller.core.messages.commands import PartitionView, UpdateMetadata
from controller.core.messages.effects import Commit, Connect, Effect, Notice, Operation, Set, Tell, operation
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import (
    Acknowledged,
    Again,
    Asked,
    CallId,
    CommitId,
    Event,
    Loaded,
    Observed,
    ResignationAsked,
    SettingsChanged,
    Woke,
)
from controller.core.messages.requests import (
    AlterScramCredentials,
    Caller,
    DescribeCluster,
    ScramUpsertion,
    TopicReference,
)
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.state.cluster import ClusterState
from controller.core.transactions.owner import TryAgain
from controller.core.transactions.proposal import Subject
from controller.runtime.journal import Difference, Journal, Term, Turn, files, read, replay
from controller.runtime.plain import Unreadable, from_plain, to_plain
from controller.runtime.pump import NO_TIME
from controller.wire.commands import CommandEncoder
from controller.wire.versions import parse_protocol
from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.configs import Config, DefaultBrokerConfigAddress, UserConfigAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.scram import MECHANISMS, credential
from zk_layout.znodes.topics import TopicAddress

ORDERS, B1, B2 = TopicName("orders"), BrokerId(1), BrokerId(2)
VIEW = PartitionView(
    ORDERS, None, PartitionId(0), ControllerEpoch(1), B1, LeaderEpoch(0), (B1, B2), PartitionEpoch(3), 0, (B1, B2)
)
REGISTRATION = Registration((Endpoint("INSIDE", "h1", 9092),), None, {"f": {"min": 1}})
RAISED = Set(StateAddress(ORDERS, PartitionId(0)), ControllerEpoch(1), ZnodeVersion(2))
REFUSED = {TopicPartition(ORDERS, PartitionId(0)): ErrorCode.KAFKA_STORAGE_ERROR}


def fact(path: str, data: bytes, zxid: int) -> Fact:
    address = catalog.address_of(path)
    assert address is not None
    return present(address, catalog.decode(address, data), Stat(Zxid(zxid), Zxid(zxid), ZnodeVersion(0)))


FACTS: tuple[Fact, ...] = (
    fact(
        "/brokers/ids/1",
        b'{"version":4,"endpoints":["INSIDE://h1:9092"],'
        b'"listener_security_protocol_map":{"INSIDE":"PLAINTEXT"},"host":null,"port":-1}',
        10,
    ),
    fact(
        "/brokers/topics/orders",
        b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}',
        11,
    ),
    fact(
        "/brokers/topics/orders/partitions/0/state",
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}',
        12,
    ),
)


@pytest.mark.parametrize(
    "value",
    [
        Loaded(),
        Woke(Again()),
        Woke(TryAgain(Subject("topic", "orders"))),
        Observed((absent(TopicAddress(ORDERS), Zxid(5)), *FACTS)),
        Observed((present(BrokerAddress(B1), Malformed("no JSON", 3), Stat(Zxid(1), Zxid(1), ZnodeVersion(0))),)),
        Acknowledged(B1, BrokerEpoch(2), UpdateMetadata((VIEW,), ()), ErrorCode.NONE, REFUSED),
        Asked(CallId(1), DescribeCluster((TopicReference(ORDERS),)), Caller("INSIDE", "h:1")),
        Connect(B1, BrokerEpoch(2), REGISTRATION),
        Tell(B1, BrokerEpoch(2), ControllerEpoch(3), UpdateMetadata((VIEW, VIEW), ())),
        Commit(CommitId(1), (operation(RAISED),), ("why",)),
        {B1: frozenset({B2, B1})},
        (None, True, 1.5, "text"),
    ],
)
def test_a_value_is_the_same_after_being_written_and_read(value: object) -> None:
    again = from_plain(to_plain(value))

    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    "plain",
    [
        {"is": "os:system", "of": "true"},
        {"is": "controller.core.events:Nothing"},
        {"is": "controller.core.machine:Machine"},
        {"is": "zk_layout.nowhere:Value"},
        {"key": "no kind"},
        {"is": 5},
    ],
)
def test_only_values_of_the_core_are_read(plain: object) -> None:
    with pytest.raises(Unreadable):
        from_plain(plain)


def test_what_a_partition_was_encoded_as_is_not_written() -> None:
    encoded = copy(VIEW)
    CommandEncoder(B1, parse_protocol("3.9"), "INSIDE").encode(
        Tell(B1, BrokerEpoch(2), ControllerEpoch(3), UpdateMetadata((encoded,), ())), 1
    )

    assert encoded.compact_head
    assert to_plain(encoded) == to_plain(VIEW)


def test_a_value_that_cannot_be_written_is_an_error_at_once() -> None:
    with pytest.raises(TypeError, match="cannot be written to a journal"):
        to_plain(object())


TERM = Term(MachineSettings(BrokerId(1000), "cluster"), 7, b"seed")


def machine_of(term: Term, state: ClusterState | None = None) -> Machine:
    assert isinstance(term.settings, MachineSettings)
    return Machine(term.settings, ControllerEpoch(term.controller_epoch), SeededRandom(term.seed), state=state)


def live_through(journal: Journal, *batches: Sequence[Event]) -> list[list[Effect]]:
    machine = machine_of(TERM)
    journal.begin(TERM)
    effects = []
    for number, batch in enumerate(batches):
        effects.append(machine.turn(batch, float(number)))
        journal.turned(float(number), batch, effects[-1], NO_TIME, 0)
    journal.close()
    return effects


STORY: tuple[Sequence[Event], ...] = (
    (Observed(FACTS), Loaded()),
    (Asked(CallId(1), DescribeCluster(None), Caller("INSIDE", "h:1")),),
    (SettingsChanged(MachineSettings(BrokerId(1000), "cluster", rebalance_every_s=60.0)),),
    (ResignationAsked(),),
)


def test_a_journal_of_a_real_machine_is_replayed_without_a_difference(tmp_path: Path) -> None:
    effects = live_through(Journal(tmp_path), *STORY)

    entries = list(read(files(tmp_path)))

    assert entries[0] == TERM
    assert [entry.effects for entry in entries if isinstance(entry, Turn)] == [tuple(e) for e in effects]
    assert any(isinstance(effect, Tell) for effect in effects[0])
    assert list(replay(entries, machine_of)) == []


def test_a_term_that_began_with_what_was_folded_before_is_replayed_too(tmp_path: Path) -> None:
    """The process had folded something else in the session before, which counts no more."""
    journal, state = Journal(tmp_path), ClusterState()
    journal.folded((Observed((absent(TopicAddress(ORDERS), Zxid(99)),)),), is_beginning=True)
    journal.folded((), is_beginning=True)
    for fact in FACTS:
        state.fold(Observed((fact,)))
        journal.folded((Observed((fact,)),))
    machine = machine_of(TERM, state)
    journal.begin(TERM)
    effects = machine.turn((Loaded(),), 0.0)
    journal.turned(0.0, (Loaded(),), effects, NO_TIME, 0)
    live_through(journal, *STORY)

    entries = list(read(files(tmp_path)))

    assert any(isinstance(effect, Tell) for effect in effects)
    assert list(replay(entries, machine_of)) == []
    assert list(replay(entries[4:], machine_of)) == []  # the beginning is gone: only the second term is repeated
    assert list(replay(entries[5:], machine_of)) != []  # what was folded is missed


def test_replay_tells_the_turn_and_the_effect_in_which_another_machine_differs(tmp_path: Path) -> None:
    class Other:
        def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
            return [Notice("other", "")] if now == 1.0 else []

    journal = Journal(tmp_path)
    journal.begin(TERM)
    for now in (0.0, 1.0, 2.0):
        journal.turned(now, (Loaded(),), [], NO_TIME, 0)
    journal.close()

    differences = list(replay(read(files(tmp_path)), lambda *_: Other()))

    assert differences == [Difference(2, 0, None, Notice("other", ""))]


def test_files_are_rotated_by_size_the_oldest_go_and_an_unfinished_line_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path, most_bytes=500, most_files=3)
    for number in range(100):
        journal.turned(float(number), (Woke(TryAgain(Subject("topic", "x" * 50))),), [], NO_TIME, 0)
    journal.close()
    with files(tmp_path)[-1].open("ab") as file:
        file.write(b'{"now": 100.0, "events": [')

    turns = [entry for entry in read(files(tmp_path)) if isinstance(entry, Turn)]

    assert len(files(tmp_path)) == 3
    assert all(file.stat().st_size < 1000 for file in files(tmp_path))
    assert [turn.now for turn in turns] == [float(n) for n in range(100 - len(turns), 100)]
    assert list(replay(turns, machine_of)) == []  # its beginning is gone


def test_a_new_process_continues_in_a_new_file(tmp_path: Path) -> None:
    for _ in range(2):
        live_through(Journal(tmp_path), *STORY)

    assert [file.name for file in files(tmp_path)] == ["journal-000001.jsonl", "journal-000002.jsonl"]
    assert list(replay(read(files(tmp_path)), machine_of)) == []


def test_a_journal_that_cannot_be_written_is_given_up_without_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    stopped: list[str] = []
    journal = Journal(tmp_path / "file", stopped.append)

    for now in (0.0, 1.0):
        journal.turned(now, (Loaded(),), [], NO_TIME, 0)

    (reason,) = stopped
    assert reason.startswith(f"{tmp_path / 'file'}: ")
    assert reason.endswith("the journal is off until the next term")


def test_a_full_disk_stops_the_journal_until_the_next_term_and_raises_nothing(tmp_path: Path) -> None:
    stopped: list[str] = []
    journal = Journal(tmp_path, stopped.append)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        journal.begin(TERM)
        for now in range(100):
            journal.turned(now, (Loaded(),), [], NO_TIME, 0)
        journal.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert len(stopped) == 1
    assert "File too large" in stopped[0]
    live_through(journal, (Loaded(),))
    half, whole = files(tmp_path)
    assert half.stat().st_size == 2_000
    assert [type(entry) for entry in read([half, whole])][-2:] == [Term, Turn]


def test_only_its_owner_may_read_a_journal(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "journal"

    live_through(Journal(directory), (Loaded(),))

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(directory)] == [0o600]


def test_the_keys_of_users_are_not_in_it_and_a_replay_still_does_the_same(tmp_path: Path) -> None:
    spelt = credential(MECHANISMS[1], b"salt", b"salted password", 4096)
    keys = [part.partition("=")[2] for part in spelt.split(",") if "_key=" in part]
    asked = AlterScramCredentials((ScramUpsertion("ann", 1, 4096, spelt),))
    turns: list[list[Event]] = [[Loaded()], [Asked(CallId(1), asked, Caller("INSIDE", "10.0.0.1"))]]
    machine = made(TERM)
    journal = Journal(tmp_path)
    journal.begin(TERM)
    for number, events in enumerate(turns):
        journal.turned(float(number), events, machine.turn(events, float(number)), NO_TIME, 0)
    journal.close()

    written = b"".join(file.read_bytes() for file in files(tmp_path))

    assert len(keys) == 2
    assert b"stored_key=" in written
    assert not any(key.encode() in written for key in keys)
    assert list(replay(read(files(tmp_path)), made)) == []


SPELT = credential(MECHANISMS[1], b"salt", b"salted password", 4096)
SECRET = "c2VjcmV0IGFuZCBsb25n"


@pytest.mark.parametrize(
    ("address", "settings", "secret"),
    [
        (DefaultBrokerConfigAddress(), {"ssl.key.password": f"encryptedPassword:{SECRET},iterations:4096"}, SECRET),
        (UserConfigAddress("ann"), {"SCRAM-SHA-256": SPELT}, SPELT.partition("stored_key=")[2].partition(",")[0]),
    ],
    ids=["broker", "user"],
)
def test_secrets_in_settings_are_not_in_it_in_any_form(
    tmp_path: Path, address: DefaultBrokerConfigAddress | UserConfigAddress, settings: dict[str, str], secret: str
) -> None:
    config = Config(settings)
    write = operation(Set(address, config, ZnodeVersion(4)))
    seen = Observed((present(address, config, Stat(Zxid(1), Zxid(2), ZnodeVersion(4))),))
    journal = Journal(tmp_path)
    journal.begin(TERM)
    journal.turned(0.0, [seen], [Commit(CommitId(1), (write,), ("why",))], NO_TIME, 0)
    journal.close()

    written = b"".join(file.read_bytes() for file in files(tmp_path))

    assert secret.encode() in catalog.encode(config)
    for text in (secret.encode(), b64encode(catalog.encode(config))):
        assert text not in written


def test_the_bytes_of_a_write_follow_from_what_is_written() -> None:
    write = operation(Set(DefaultBrokerConfigAddress(), Config({"a": "1"}), ZnodeVersion(4)))

    assert from_plain(to_plain(write)) == write
    older = {**to_plain(write), "data": to_plain(b"of an earlier release")}
    assert from_plain(older) == Operation(write.write, b"of an earlier release")


def made(term: Term, state: ClusterState | None = None) -> Machine:
    assert isinstance(term.settings, MachineSettings)
    return Machine(term.settings, ControllerEpoch(term.controller_epoch), SeededRandom(term.seed), state=state)
