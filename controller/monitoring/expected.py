"""Which values of labels are known before anything happens, so that their counters begin at zero?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from controller import logs
from controller.core.candidacy.challenger import OUTCOMES as CHALLENGE_OUTCOMES
from controller.core.candidacy.migrating import MigrationPhase
from controller.core.candidacy.phases import Phase
from controller.core.comparing.judging import Outcome
from controller.core.messages import commands
from controller.core.messages.effects import NOTICE_KINDS
from controller.core.messages.events import Committed, Conflicted, Fenced, Unknown
from controller.server.connection import DISCONNECTED_FOR
from controller.wire.apis import THROTTLED_SINCE, ApiKey, api_name, requests_of
from metrics.recorder import Recorder
from zk_layout.catalog import FAMILIES

OUTCOMES: dict[type, str] = {
    Committed: "committed",
    Conflicted: "conflicted",
    Fenced: "fenced",
    Unknown: "unknown",
}


def expect(recorder: Recorder, listeners: Iterable[str]) -> None:
    """Show each counter with labels at zero, for each value that its labels can have.

    Not by broker, since brokers are not known yet, and not by part of the process: `Troubles` knows those. Of the
    histograms only that of the three commands, since each value costs more than a dozen series.
    """
    for name, values in _single():
        recorder.expect(name, ((value,) for value in values))
    recorder.expect("requests", ((api, listener) for listener in listeners for api in map(api_name, ApiKey)))


def _single() -> Iterator[tuple[str, Iterable[str]]]:
    sent = [command.__name__ for command in get_args(commands.Command)]
    yield "phase", [phase.value for phase in Phase]
    yield "migration_phase", [phase.value for phase in MigrationPhase]
    yield "challenges", CHALLENGE_OUTCOMES
    yield "zookeeper_transactions", OUTCOMES.values()
    yield "zookeeper_writes", [family.kind for family in FAMILIES]
    yield "broker_commands", sent
    yield "broker_command_seconds", sent
    yield "clients_disconnected", DISCONNECTED_FOR
    yield "requests_throttled", [request.__name__ for request in requests_of(THROTTLED_SINCE)]
    yield "notices", NOTICE_KINDS
    yield "compared_decisions", [outcome.value for outcome in Outcome]
    yield "log_lines_dropped", logs.lost()
