"""How does docs/clients.md present what clients see?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median_high

from msgspec import Struct

from tests.clients.comparing import EQUAL, UNSAID, Cell, Known, KnownFile, Verdict
from tests.clients.operations import OPERATIONS
from tests.clients.recovery import DEAD, RESTART_AFTER_S, RESTARTED, WATCH_S, Recoveries, Recovery
from tests.clients.running import UNSUPPORTED
from tests.clients.stage import NATIVE, OURS
from tests.clients.tools import Beside, Said

_TOOLS_HEAD = """\
## Our node among the brokers

For clients and tools our controller is one more node of the cluster, a broker without replicas; [tools.md](tools.md)
says how other people's tools take that. Here is what Kafka's own tools print, through addresses of brokers, each beside
the same call under the native controller. Tools are of the brokers' version, or of the one in brackets: newer ones no
longer speak to ZooKeeper. If replicas are placed at random, only lines with our node are compared.
"""

_OPERATIONS_TITLE = "## The operations\n"
_RECOVERY_TITLE = "## After SIGKILL\n"
_RECOVERY_HEAD = f"""\
{_RECOVERY_TITLE}
How long is each client without a controller when the leader is killed? `make clients-recovery` runs it and makes
this section. All clients work at once through addresses of brokers, each with one long-lived admin client and its
defaults: they send CreateTopics, only checked (@platformatic/kafka cannot: the controller refuses its request,
which is an answer too), again 100 ms after each answer. Each is watched for {WATCH_S:g} s, or until a request that is
under way then ends. ZooKeeper's session time-out is 6 s for brokers and for our replicas: a leader and a standby.

- *restarted*: the killed process is started again, ours {RESTART_AFTER_S:g} s later, as systemd does. A
  broker comes back only when its former session is over, because its id is taken until then.
- *stays dead*: another broker, or our standby, takes over.

A cell has the time from the kill until the first success of a request sent after it, how many attempts failed until
then, and the longest time without a success; each is the median, of an even number the higher of the middle two. The
time counts only kills after which the client recovered; *not in 1 of 2*: after one it did not, while we watched.
"""

_RECOVERY_TAIL = """\
What the clients did on 2026-11-23, with two kills of each kind. The sources of sarama, kafka-python and
@platformatic/kafka confirm it; intervals are the libraries' defaults, and the test did not wait for them.

- Java's AdminClient, franz-go and kafkajs go on when the next controller is elected, whether or not the killed one
  comes back.
- The others keep the controller's address. A replica of ours that is back there passes their requests on to the new
  leader, and they go on as fast as Java's; kafka-python does so after one kill of two. A broker is back only
  when its former session is over, and answers NOT_CONTROLLER. That makes sarama and aiokafka look for the new
  controller, librdkafka most often, kafka-python and @platformatic/kafka never.
- *Connection refused* at that address makes none of them look for another. sarama renews its metadata
  after ten minutes (`Metadata.RefreshFrequency`), librdkafka after five (`topic.metadata.refresh.interval.ms`);
  aiokafka's request ends after 40 s, and the next one succeeds; kafka-python and @platformatic/kafka keep the address
  as long as the admin client lives.

So restart a killed replica within seconds, as the unit in `deploy/` does. A new admin client, for each task or
after a failure, always finds the leader.
"""

_HEAD = """\
# Clients

<!-- Made by `make clients`. -->

What clients see of a cluster that our controller leads, beside the same cluster led by the native controller, in one
run: `make clients` runs it and makes this page. Each client is one program in [tests/clients](../tests/clients), which
does not know who leads. It does everything twice: through the addresses of brokers that do not lead, and through
the controller's alone, which is our node or the broker that leads.

- `=`: the same result through both kinds of address, down to the error and its text.
- `≠` and a number: it differs, and the number's reason below says why. **≠** without one is unexplained: the run fails.
- `= fails`: the same failure under both, where success is expected.
- `–`: the client has no such operation.

Before the comparison our node is removed from the list of brokers, names of the run and addresses are replaced, and
if the controller chooses replicas only their number and their brokers count.
"""


class Results(Struct, frozen=True):
    """All results of a run.

    Shape:
        `absent` has the clients that could not run here, and why; `repeated` the requests that a native controller did
        not answer at first.
    """

    day: str
    kafka: str
    clients: tuple[str, ...]
    absent: Mapping[str, str]
    cells: tuple[Cell, ...]
    tools: tuple[Beside, ...] = ()
    repeated: tuple[str, ...] = ()


def section_of(page: str) -> str:
    """The section on recovery of a page; empty if it has none.

    >>> section_of("## After SIGKILL\\n\\nx\\n\\n## The operations\\n")
    '## After SIGKILL\\n\\nx\\n\\n'
    """
    begin, end = page.find(_RECOVERY_TITLE), page.find(_OPERATIONS_TITLE)
    return "" if begin < 0 else page[begin:end]


def with_section(page: str, section: str) -> str:
    """The page with this section on recovery in place of its own.

    >>> with_section("## After SIGKILL\\n\\nx\\n\\n## The operations\\n", "## After SIGKILL\\n\\ny\\n\\n")
    '## After SIGKILL\\n\\ny\\n\\n## The operations\\n'
    """
    rest = page.replace(section_of(page), "") if section_of(page) else page
    return rest.replace(_OPERATIONS_TITLE, section + _OPERATIONS_TITLE, 1)


def recovery_section(recoveries: Recoveries) -> str:
    """The section on recovery."""
    return "\n".join((_RECOVERY_HEAD, *_recoveries(recoveries), "", _RECOVERY_TAIL, ""))


def _recoveries(recoveries: Recoveries) -> Iterator[str]:
    variants = [(leader, then) for then in (RESTARTED, DEAD) for leader in (OURS, NATIVE)]
    times = {
        variant: [seen.elected_s for seen in recoveries.handovers if (seen.leader, seen.then) == variant]
        for variant in variants
    }
    rounds = sorted({len(found) for found in times.values()})
    counted = " or ".join(map(str, rounds))
    yield f"Last run {recoveries.day}, with brokers {recoveries.kafka}; kills of each kind: {counted}.\n"
    rows = [["*the next controller is elected*", *(_seconds(times[variant]) for variant in variants)]]
    for client in dict.fromkeys(seen.client for seen in recoveries.seen):
        mine = [seen for seen in recoveries.seen if seen.client == client]
        rows.append(
            [
                client,
                *(_recovered([seen for seen in mine if (seen.leader, seen.then) == variant]) for variant in variants),
            ]
        )
    yield from _rows(["", *(f"{leader}, {then}" for leader, then in variants)], rows)


def _seconds(times: Sequence[float]) -> str:
    return f"{median_high(times):.1f} s" if times else UNSUPPORTED


def _recovered(seen: Sequence[Recovery]) -> str:
    if not seen:
        return UNSUPPORTED
    found = [one.recovered_s for one in seen if one.recovered_s is not None]
    time = f"{median_high(found):.1f} s" if found else f"not within {WATCH_S:g} s"
    lost = len(seen) - len(found)
    some = f", not in {lost} of {len(seen)}" if lost and found else ""
    failed = int(median_high([one.failed for one in seen]))
    return f"{time}{some}; {failed} failed; silent {median_high([one.silence_s for one in seen]):.1f} s"


def as_markdown(results: Results, verdict: Verdict, known: KnownFile) -> str:
    """The page."""
    return "\n".join(
        (
            _HEAD,
            f"Last run {results.day}, with brokers {results.kafka}.\n",
            table(results, verdict),
            *_absent(results),
            *_repeated(results),
            *_reasons(verdict, known.difference),
            *_unexplained(verdict),
            *_tools(results.tools, known),
            _OPERATIONS_TITLE,
            *_rows(["operation", "what the client does"], [[f"`{name}`", what] for name, what in OPERATIONS.items()]),
            "",
        )
    )


def table(results: Results, verdict: Verdict) -> str:
    """Operation by client."""
    seen = {cell.operation for cell in results.cells}
    operations = [name for name in OPERATIONS if name in seen]
    rows = [
        [f"`{operation}`", *(_mark(client, operation, results, verdict) for client in results.clients)]
        for operation in operations
    ]
    return "\n".join((*_rows(["", *results.clients], rows), ""))


def _mark(client: str, operation: str, results: Results, verdict: Verdict) -> str:
    if client in results.absent:
        return "not run"
    cells = [cell for cell in results.cells if (cell.client, cell.operation) == (client, operation)]
    if not cells:
        return UNSAID
    if not any(cell.is_supported for cell in cells):
        return UNSUPPORTED
    if any(cell in verdict.unexplained for cell in cells):
        return "**≠**"
    if all(cell.is_equal for cell in cells) and any(fails(cell) for cell in cells):
        return f"{EQUAL} fails"
    numbers = sorted({number for cell, number in verdict.explained if cell in cells})
    return " ".join(f"≠ {number}" for number in numbers) or EQUAL


def fails(cell: Cell) -> bool:
    """Whether an operation that should succeed fails under both controllers, by the client's fault or ours."""
    is_error = isinstance(cell.native, dict) and cell.native.get("error") is not None
    return is_error and not OPERATIONS[cell.operation].endswith(": refused")


def _absent(results: Results) -> Iterator[str]:
    for client, why in results.absent.items():
        yield f"Not run: {client}: {why}.\n"


def _repeated(results: Results) -> Iterator[str]:
    if results.repeated:
        yield "The native controller left these without an answer at first, and answered when they were repeated:\n"
        yield from (f"- {what}" for what in results.repeated)
        yield ""


def _reasons(verdict: Verdict, known: Sequence[Known]) -> Iterator[str]:
    numbers = sorted({number for _, number in verdict.explained})
    if not numbers:
        return
    yield "## Reasons\n"
    for number in numbers:
        yield f"**{number}.** {known[number - 1].reason}\n"
        for cell, of in verdict.explained:
            if of == number:
                yield f"- {cell.client}, `{cell.operation}`, through {cell.bootstrap}: {_code(cell)}"
        yield ""


def _unexplained(verdict: Verdict) -> Iterator[str]:
    if not verdict.unexplained:
        return
    yield "## Unexplained\n"
    for cell in verdict.unexplained:
        yield f"- {cell.client}, `{cell.operation}`, through {cell.bootstrap}: {_code(cell)}"
    yield ""


def _tools(tools: Sequence[Beside], known: KnownFile) -> Iterator[str]:
    if not tools:
        return
    yield _TOOLS_HEAD
    rows = [[f"`{call.title}`", _exit(call.ours, call.native), _compared(call, known)] for call in tools]
    yield from _rows(["call", "exit code", "what it prints"], rows)
    yield ""
    for call in tools:
        if not call.is_equal:
            yield f"`{call.title}`\n\n```diff"
            yield from (f"- {line}" for line in call.only_native)
            yield from (f"+ {line}" for line in call.only_ours)
            yield "```\n"


def _exit(ours: Said, native: Said) -> str:
    return str(ours.exit_code) if ours.exit_code == native.exit_code else f"{ours.exit_code}, native {native.exit_code}"


def _compared(call: Beside, known: KnownFile) -> str:
    if call.is_equal:
        return EQUAL
    return f"≠ {known.remark_on(call.title) or '**unexplained**'}"


def _code(cell: Cell) -> str:
    return "`" + cell.difference.replace("`", "'") + "`"


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---'] * len(header))} |"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
