"""Which differences have a reason, and how does the table show them?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clients.comparing import Cell, Known, KnownFile, Remark, cells, judge, read_known
from tests.clients.operations import OPERATIONS
from tests.clients.page import Results, as_markdown
from tests.clients.programs import CLIENTS
from tests.clients.running import UNSUPPORTED
from tests.clients.tools import PROBES, Beside, Said

SAME = Cell("java", "reassign", "brokers", {"accepted": True}, {"accepted": True})
OTHER = Cell("java", "elect_leaders", "controller", {"error": "X"}, {"accepted": True})
NEVER = Cell("sarama", "elect_leaders", "brokers", UNSUPPORTED, UNSUPPORTED)


def known(*operations: str, client: str = "java", **more: Any) -> Known:
    return Known((client,), operations, "it is so", **more)


def row(page: str, operation: str) -> str:
    return next(line for line in page.splitlines() if line.startswith(f"| `{operation}`"))


def page(
    *shown: Cell,
    reasons: tuple[Known, ...] = (),
    absent: dict[str, str] | None = None,
    tools: tuple[Beside, ...] = (),
    remarks: tuple[Remark, ...] = (),
) -> str:
    results = Results("2026-01-01", "3.9.1", ("java", "sarama"), absent or {}, shown, tools)
    return as_markdown(results, judge(shown, reasons), KnownFile(reasons, remarks))


def test_what_is_equal_needs_no_reason() -> None:
    verdict = judge([SAME, NEVER], [])

    assert not verdict.explained
    assert not verdict.unexplained


def test_a_difference_without_a_reason_is_unexplained() -> None:
    assert judge([SAME, OTHER], []).unexplained == [OTHER]


def test_a_reason_explains_its_client_operation_and_bootstrap_only() -> None:
    assert judge([OTHER], [known("elect_leaders")]).explained == [(OTHER, 1)]
    assert judge([OTHER], [known("elect_leaders", bootstrap="controller")]).explained == [(OTHER, 1)]
    assert judge([OTHER], [known("elect_leaders", bootstrap="brokers")]).unexplained == [OTHER]
    assert judge([OTHER], [known("reassign")]).unexplained == [OTHER]
    assert judge([OTHER], [known("elect_leaders", client="sarama")]).unexplained == [OTHER]


def test_a_reason_is_stale_if_all_that_it_is_about_is_equal() -> None:
    reason = known("reassign")

    assert judge([SAME], [reason]).stale == [reason]
    assert judge([OTHER], [known("elect_leaders")]).stale == []


def test_a_reason_is_not_stale_where_its_cells_were_not_looked_at_or_differ_now_and_then() -> None:
    assert judge([SAME], [known("delete_topic")]).stale == []
    assert judge([SAME], [known("reassign", is_frequent=False)]).stale == []


def test_what_one_side_never_told_differs() -> None:
    told = {("java", "brokers"): {"reassign": 1}}

    (cell,) = cells(told, {("java", "brokers"): {}})

    assert not cell.is_equal


def test_the_table_marks_what_is_equal_explained_unexplained_and_unsupported() -> None:
    assert row(page(SAME), "reassign") == "| `reassign` | = |  |"
    assert row(page(OTHER, NEVER), "elect_leaders") == "| `elect_leaders` | **≠** | – |"
    assert row(page(OTHER, NEVER, reasons=(known("elect_leaders"),)), "elect_leaders") == (
        "| `elect_leaders` | ≠ 1 | – |"
    )


def test_the_page_tells_reasons_and_what_is_unexplained() -> None:
    assert "**1.** it is so" in page(OTHER, reasons=(known("elect_leaders"),))
    assert 'through controller: `ours: {"error":"X"}; native: {"accepted":true}`' in page(OTHER)


def test_what_a_tool_prints_more_is_shown_with_its_remark() -> None:
    call = Beside("kafka-x", Said(0, ("a", "ours")), Said(1, ("a", "theirs")))

    shown = page(tools=(call,), remarks=(Remark(("kafka-x",), "it does not hurt"),))

    assert "| `kafka-x` | 0, native 1 | ≠ it does not hurt |" in shown
    assert "- theirs\n+ ours" in shown
    assert "**unexplained**" in page(tools=(call,))
    assert "| `kafka-x` | 0 | = |" in page(tools=(Beside("kafka-x", Said(0, ("a",)), Said(0, ("a",))),))


def test_one_bootstrap_that_differs_is_enough() -> None:
    equal = msgspec.structs.replace(OTHER, bootstrap="brokers", ours=OTHER.native)

    assert "**≠**" in row(page(equal, OTHER), "elect_leaders")


def test_the_same_failure_of_what_ought_to_succeed_is_no_silent_success() -> None:
    fails = msgspec.structs.replace(SAME, ours={"error": "X"}, native={"error": "X"})
    is_refused = msgspec.structs.replace(fails, operation="create_existing")

    assert row(page(fails), "reassign") == "| `reassign` | = fails |  |"
    assert row(page(is_refused), "create_existing") == "| `create_existing` | = |  |"


def test_a_client_that_cannot_run_here_says_why() -> None:
    shown = page(SAME, absent={"sarama": "no go on this machine"})

    assert row(shown, "reassign") == "| `reassign` | = | not run |"
    assert "Not run: sarama: no go on this machine." in shown


def test_the_file_of_reasons_names_clients_and_operations_that_there_are() -> None:
    titles = {client.title for client in CLIENTS}

    known = read_known()
    for reason in known.difference:
        assert set(reason.clients) <= titles
        assert set(reason.operations) <= set(OPERATIONS)
    for remark in known.tool:
        assert set(remark.calls) <= {probe.title for probe in PROBES}


def test_a_misspelt_key_in_the_file_of_reasons_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text('[[difference]]\nclients = []\noperations = []\nreasons = "?"\n')

    with pytest.raises(msgspec.ValidationError):
        read_known(file)
