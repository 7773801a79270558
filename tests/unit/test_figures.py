"""Figures in help texts and pages are those of the code.

A fragment is made of constants and must stand in the page, so a change of one of the two points to the other here.
Tables that are made from the code (settings, metrics, requests) are compared as a whole elsewhere; of their sentences
only figures that belong to another module are here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.__main__ import main
from controller.brokers import link
from controller.core.candidacy import pauses
from controller.core.clients.decisions import MOST_LOGGED
from controller.core.comparing import wishes
from controller.core.elections.duty import FIRST_REBALANCE_S
from controller.core.progress import duty as progress
from controller.core.progress import status_text, status_znodes, transfers
from controller.core.reassignment import lagging, waiting_sizes
from controller.core.settings import DAY_MS
from controller.core.transactions.sizes import ALARMING_SHARE
from controller.http import limits as http_limits
from controller.logs import floods
from controller.monitoring import audit_trail, authorizer_log
from controller.preflight.brokers_protocol import REMEMBERED_S
from controller.preflight.judging import TOLERABLE_S
from controller.process import claimant, daemon, observer
from controller.reassign.client_properties import DEFAULT_API_TIMEOUT_MS
from controller.reassign.options import DEFAULT_MOVE_TIMEOUT_MS
from controller.security.tls.tls_listener import LOOKS_EVERY_S
from controller.security.tokens import bearer_tokens, key_sets
from controller.server import memory_pools, repeated_lines
from controller.settings.limits import Limits
from controller.settings.table import HTTP_PORT, SETTINGS
from controller.wire import tagged
from controller.wire.apis import ApiKey
from controller.wire.versions import _RELEASES
from controller.zk import bridge, inspection, oddities
from metrics.replay.commands import cli, jobs
from metrics.replay.events import splits
from metrics.replay.files import indexing, reading
from metrics.replay.partitions import moves
from metrics.replay.tables import znodes

ROOT = Path(__file__).parents[2]
DEFAULTS = {setting.key: setting.default for setting in SETTINGS}
RELEASES = " to ".join(".".join(map(str, release)) for release in (min(_RELEASES), max(_RELEASES)))
WORDS = {1: "one", 2: "two", 5: "five", 10: "ten"}


def words(figure: float) -> str:
    """As a sentence has it."""
    return WORDS[int(figure)]


def mib(figure: int) -> str:
    """Whole mebibytes."""
    return f"{figure >> 20} MiB"


def kib(figure: int) -> str:
    """Whole kibibytes."""
    return f"{figure >> 10} KiB"


FRAGMENTS = {
    "CHANGELOG.md": (
        f"{ApiKey.METADATA.row.most_entries:,} topics, "
        f"{ApiKey.ALTER_PARTITION_REASSIGNMENTS.row.most_entries:,} partitions",
        f"{mib(Limits().unsent_bytes)} of answers",
        f"{mib(Limits().most_request_bytes)} (`socket.request.max.bytes`",
    ),
    "README.md": (f"[{RELEASES}](docs/versions.md)",),
    "docs/settings.md": (
        f"({RELEASES}) is kept",
        f"counts as it was for {words(REMEMBERED_S / 60)} minutes",
        f"requests above {kib(memory_pools._SMALL_BYTES)}",
        f"first {words(FIRST_REBALANCE_S)} seconds after",
    ),
    "docs/operations.md": (
        f"`reserved.broker.max.id` ({DEFAULTS['reserved.broker.max.id']})",
        f"of more than {inspection._MOST_TOPICS} topics only {inspection._MOST_TOPICS} are read",
        f"more than {TOLERABLE_S:.0f} seconds",
        f"again every {words(claimant.LONGEST_LOOK_AGAIN_S)} seconds",
        f"after {words(bridge.SILENT_S)} seconds `no ZooKeeper server has answered",
        f"localhost:{HTTP_PORT}/leader",
        f"`/leader` the latest {observer.MOST_SHOWN} in `differences`",
        f"the one that leads has not for {wishes.DONE_WITHIN_S:.0f} seconds",
        f"{words(pauses.NATIVE_BEGINS_S)} seconds later",
        f"within {'a' if claimant.HASTE_S == 1 else claimant.HASTE_S} second if ZooKeeper answers",
        f"{words(audit_trail.MOST_A_SECOND)} of a kind within a second",
        f"{authorizer_log.MOST_A_SECOND} lines of a kind within a second, and {MOST_LOGGED} of one request",
        f"{floods.MOST_A_WINDOW} lines of one kind within {floods.WINDOW_S:.0f} seconds",
        f"{words(pauses.SHORTEST_PAUSE_S)} second (longer each time, at most {pauses.LONGEST_PAUSE_S:.0f})",
        f"only the first {oddities._STRANGERS_NAMED}",
        f"{ALARMING_SHARE * 100:.0f} % of ZooKeeper's size limit",
        f"tried again every {words(LOOKS_EVERY_S)} seconds",
        f"again every {words(bearer_tokens._AGAIN_MS / 1000)} seconds",
        f"and {words(daemon._CLOSE_WITHIN_S)} seconds at most",
        f"({ApiKey.METADATA.row.most_entries:,} topics, "
        f"{ApiKey.ALTER_PARTITION_REASSIGNMENTS.row.most_entries:,} partitions",
        f"{Limits().most_newcomers} more",
        mib(Limits().unsent_bytes),
    ),
    "docs/moves.md": (
        f"every {status_znodes.WRITTEN_EVERY_S:.0f} seconds while",
        f"every {words(status_znodes.WRITTEN_UNCHANGED_EVERY_S / 60)} minutes while nothing",
        f"`reassign.partitions.status.min.retention.ms` ({words(DAY_MS / 86_400_000)} day)",
        f"only the last {status_znodes.MOST_FINISHED:,} are kept",
        f"more than {status_text.MOST_WITH_PROGRESS:,} partitions omit",
        f"tagged field {tagged.ADDITIONS}",
        f"{'half a second' if progress.GATHER_S == 0.5 else progress.GATHER_S}, and each group",
        f"over about {words(transfers.SMOOTHING_S)} seconds",
        f"for {waiting_sizes.AT_ONCE:,} partitions at a time",
        f"again after {words(waiting_sizes.AGAIN_S / 60)} minutes",
        f"for the first time, up to {words(waiting_sizes.AWAITED_S)} seconds",
        f"its leader had {words(lagging.BEHIND_S)} seconds ago",
    ),
    "docs/security.md": (
        f"after {words(key_sets._SOONEST_S)} seconds",
        f"in {words(repeated_lines.EVERY_S)} seconds",
        f"within {words(LOOKS_EVERY_S)} seconds",
        f"above {kib(memory_pools._TOKEN_BYTES)} each",
        f"{http_limits.MOST_CONNECTIONS} connections",
        f"within {http_limits.REQUEST_S:.0f} seconds",
        f"default: {words(key_sets._WITHIN_S)} seconds",
    ),
    "docs/reassign.md": (f"`default.api.timeout.ms` ({DEFAULT_API_TIMEOUT_MS // 1000} s)",),
    "docs/replay.md": (
        f"in this process up to {mib(cli.BRIEF_BYTES)}",
        f"Spark above {cli.LOCAL_BYTES >> 30} GiB",
        f"and up to {cli.LOCAL_BYTES >> 30} GiB",
        f"exceeded {moves.STALLED_MS // 60_000} minutes",
        f"the {znodes.MOST:,} znodes with the most bytes written",
        f"in ranges of {mib(indexing.DEFAULT_RANGE_BYTES)}",
        f"{mib(reading.CHUNK_BYTES)} of log at a time",
        f"{mib(splits.MOST_HELD_BYTES)} of",
        f"({mib(splits.MOST_HELD_FROM_ELSEWHERE_BYTES)} from an object store",
        f"a split of up to {mib(jobs.LARGEST_SPLIT_BYTES)} of log",
    ),
    "controller/brokers/README.md": (f"after {link.FIRST_WAIT_S} s, growing to {link.LONGEST_WAIT_S:.0f} s",),
    "deploy/Dockerfile": (f"EXPOSE 9095 {HTTP_PORT}", f"HTTP_PORT={HTTP_PORT}"),
    "deploy/helm/kafka-zk-controller/values.yaml": (
        f"port: {HTTP_PORT}",
        f"and {words(daemon._CLOSE_WITHIN_S)} seconds",
        f"reserved.broker.max.id ({DEFAULTS['reserved.broker.max.id']})",
    ),
    "deploy/controller.properties": (f"http.port={HTTP_PORT}",),
}
HELP = {
    "": (f"(brokers {RELEASES})",),
    "reassign": (f"default.api.timeout.ms, {DEFAULT_API_TIMEOUT_MS}", f"({DEFAULT_MOVE_TIMEOUT_MS})"),
    "replay": (f"Spark above {cli.LOCAL_BYTES >> 30} GiB", f"[default: {DEFAULTS['jute.maxbuffer']}]"),
    "status": (f"http://127.0.0.1:{HTTP_PORT} without options", f"controller-2:{HTTP_PORT}"),
}


def is_there(fragment: str, text: str) -> bool:
    """However lines are broken, and whether a sentence begins with it."""
    return re.sub(r"\s+", "", fragment).lower() in re.sub(r"\s+", "", text).lower()


@pytest.mark.parametrize(("page", "fragment"), [(page, one) for page, many in FRAGMENTS.items() for one in many])
def test_a_page_has_the_figures_of_the_code(page: str, fragment: str) -> None:
    assert is_there(fragment, (ROOT / page).read_text("utf-8")), f"{page} does not say {fragment!r}"


@pytest.mark.parametrize(("command", "fragment"), [(command, one) for command, many in HELP.items() for one in many])
def test_a_help_text_has_the_figures_of_the_code(command: str, fragment: str) -> None:
    shown = CliRunner().invoke(main, [*([command] if command else []), "--help"]).output

    assert is_there(fragment, shown), f"`{command} --help` does not say {fragment!r}"
