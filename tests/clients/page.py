"""How does docs/clients.md tell what clients see?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from tests.clients.comparing import EQUAL, UNSAID, Cell, Known, KnownFile, Verdict
from tests.clients.operations import OPERATIONS
from tests.clients.running import UNSUPPORTED
from tests.clients.tools import Beside, Said

_TOOLS_HEAD = """\
## Our node among the brokers

For clients and tools our controller is one more node of the cluster, a broker without replicas. What Kafka's own
tools make of that, through addresses of brokers, each beside the same call under the native controller. Tools are of
the brokers' version, or of the one in brackets: newer ones no longer speak to ZooKeeper. Where replicas are placed at
random, only lines with our node are compared.
"""

_HEAD = """\
# Clients

<!-- Made by `make clients`. -->

What clients see of a cluster that our controller leads, beside the same cluster led by the native controller, in one
run: `make clients` runs it and makes this page. Each client is one program in [tests/clients](../tests/clients), which
knows nothing of who leads. It does everything twice: through the addresses of brokers that do not lead, and through
that of the controller alone, which is our node or the broker that leads.

- `=`: the same result through both kinds of address, also the same error and the same text of it.
- `≠` and a number: it differs, and the number's reason below says why. **≠** without one is unexplained: the run fails.
- `= fails`: the same failure under both, where success is expected.
- `–`: the client has no such operation.

Before the comparison our node is taken out of the list of brokers, names of the run and addresses are replaced, and
where the controller chooses replicas only their number and their brokers count.
"""


class Results(Struct, frozen=True):
    """All that a run showed.

    Shape:
        `absent` has the clients that could not run here, and why; `repeated` what a native controller left unanswered
        at first.
    """

    day: str
    kafka: str
    clients: tuple[str, ...]
    absent: Mapping[str, str]
    cells: tuple[Cell, ...]
    tools: tuple[Beside, ...] = ()
    repeated: tuple[str, ...] = ()


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
            "## The operations\n",
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
    """Whether what ought to succeed fails under both controllers, be it the client's fault or ours."""
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
