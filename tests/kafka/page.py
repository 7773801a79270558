"""How does docs/kafka-tests.md present the results of Kafka's own tests?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tests.kafka.choosing import Classes
from tests.kafka.keeping import Ran
from tests.kafka.reports import Outcome, Result
from tests.kafka.running import Controller
from tests.kafka.verdicts import Reasons, Verdict

_HEAD = """\
# Kafka's own tests

<!-- Made by `make kafka-tests`. -->

Kafka publishes its own integration tests beside each release. Here they run with this controller in charge of the
brokers that they start and, as a control on the same machine, with Kafka's own. Chosen are the classes that act as
clients or tools, or check what a controller does: those in [classes.toml](../tests/kafka/classes.toml). The last run
of each class is kept in [results](../tests/kafka/results), from which this page is made; it marks classes that have not
been run yet.

A test that cannot pass here has its reason in [inapplicable.toml](../tests/kafka/inapplicable.toml). The run fails if a
test fails without a reason, passes in spite of one, or passes under another controller than it should.

The tests are as Kafka publishes them; invocations that run without ZooKeeper are left out. Of what the tests share,
this is changed for this controller:

- It is started beside their ZooKeeper, and serves clients before a broker has said whether it has an authorizer
  (`controller.preflight.tolerate`): these tests do not try again.
- Tests of single requests, which look for the broker that is the controller, find this controller's address; in one
  class they log in as the principal that they set in the broker. Those that ask the only broker about its own logs find
  that broker's.
- If nodes are counted until all brokers have started, or know each other, there is one more. A test that looks for
  all brokers itself, in ZooKeeper or in a broker's memory, finds those that it has started; if it compares all nodes
  that clients see with its servers, this controller is one of them.
- Tests that look inside Kafka's controller get what this one shows: that it is in charge, the ids of
  topics in ZooKeeper, which replicas it announced to brokers as offline, and how many unclean elections its metric
  counts.

    make kafka-tests                   # 3.9.1: hours
    make kafka-tests CLASSES=quick     # a selection
    make kafka-tests CLASSES=none      # only this page
    make kafka-tests VERSION=2.8.2 CLASSES=AddPartitionsTest,DeleteTopicTest.testRecreateTopicAfterDeletion
    make kafka-tests ARGS="--controller ours --class-minutes 5"
"""
_SIGN = {Result.PASSED: "✓", Result.FAILED: "✗", Result.SKIPPED: "skipped"}
_NOT_RUN = "not yet run"


class _Class(msgspec.Struct, frozen=True):
    """One class of tests and its outcome under each controller; empty if it was not run."""

    name: str
    ours: Mapping[str, Outcome]
    native: Mapping[str, Outcome]
    run: str
    """When ours was run, and of which commit."""


def as_markdown(
    ran: Mapping[str, Sequence[Ran]],
    reasons: Mapping[str, Reasons],
    classes: Mapping[str, Classes],
) -> str:
    """The page: for each version what was run and what not, the reasons of failures, and every test."""
    found = {version: _classes(listed, ran[version]) for version, listed in classes.items()}
    lines = [_HEAD, *_summary(found, reasons)]
    for version, its in found.items():
        lines += [f"## {version}", "", *_when(ran[version])]
        lines += _overview(its, reasons[version])
        lines += _failures(its, reasons[version])
        lines += _every_test(its, reasons[version])
    return "\n".join(lines)


def _classes(listed: Classes, ran: Sequence[Ran]) -> list[_Class]:
    """In alphabetical order, including classes that were run without being listed."""
    outcomes = {(each.class_name, each.controller): {o.name: o for o in each.outcomes} for each in ran}
    runs = {each.class_name: f"{each.day} {each.state}".strip() for each in ran if each.controller is Controller.OURS}
    return [
        _Class(
            name,
            outcomes.get((name, Controller.OURS), {}),
            outcomes.get((name, Controller.NATIVE), {}),
            runs.get(name, ""),
        )
        for name in sorted({*listed.all, *(each.class_name for each in ran)})
    ]


def _when(ran: Sequence[Ran]) -> Iterator[str]:
    if ran:
        days = sorted({each.day for each in ran})
        java = ", ".join(sorted({str(each.java) for each in ran}))
        yield f"Run {' to '.join(dict.fromkeys((days[0], days[-1])))} with Java {java}."
        yield ""


def _summary(found: Mapping[str, Sequence[_Class]], reasons: Mapping[str, Reasons]) -> Iterator[str]:
    yield "| version | classes run | tests | pass | cannot, for a reason | fail without one | with Kafka's own pass |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for version, classes in found.items():
        verdicts = Counter(
            reasons[version].verdict(each.name, outcome) for each in classes for outcome in each.ours.values()
        )
        native = [outcome.result for each in classes for outcome in each.native.values()]
        tests = verdicts.total() - verdicts[Verdict.SKIPPED]
        cells = (
            version,
            f"{sum(bool(each.ours) for each in classes)} of {len(classes)}",
            tests,
            verdicts[Verdict.PASSED] + verdicts[Verdict.STALE],
            verdicts[Verdict.EXPECTED],
            verdicts[Verdict.UNEXPECTED],
            f"{native.count(Result.PASSED)} of {len(native) - native.count(Result.SKIPPED)}",
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""


def _overview(classes: Sequence[_Class], reasons: Reasons) -> Iterator[str]:
    yield "| class | ours | Kafka's own | ours run |"
    yield "| --- | --- | --- | --- |"
    for each in classes:
        reason = None if each.ours else reasons.for_class(each.name)
        ours = f"cannot be run: {_escaped(reason.why)}" if reason else _passed(each.ours.values())
        yield f"| {each.name} | {ours} | {_passed(each.native.values())} | {each.run} |"
    yield ""


def _failures(classes: Sequence[_Class], reasons: Reasons) -> Iterator[str]:
    """The tests that do not pass with this controller, by reason."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for each in classes:
        for outcome in each.ours.values():
            if why := _why(each.name, outcome, reasons):
                by_reason.setdefault(why, {}).setdefault(each.name.rpartition(".")[2], []).append(outcome.method)
    if not by_reason:
        return
    yield "What does not pass with this controller, and why:"
    yield ""
    for why, tests in sorted(by_reason.items()):
        yield f"- {why}:"
        for class_name, methods in tests.items():
            yield f"  - {class_name}: {', '.join(dict.fromkeys(methods))}"
    yield ""


def _every_test(classes: Sequence[_Class], reasons: Reasons) -> Iterator[str]:
    yield f"<details><summary>Every test of {sum(bool(each.ours or each.native) for each in classes)} classes</summary>"
    yield ""
    yield "| test | ours | Kafka's own | why |"
    yield "| --- | --- | --- | --- |"
    for each in classes:
        if each.ours or each.native:
            yield f"| **{each.name}** | {_passed(each.ours.values())} | {_passed(each.native.values())} | |"
        for name in sorted({*each.ours, *each.native}):
            ours = each.ours.get(name)
            why = _why(each.name, ours, reasons) if ours else ""
            yield f"| {_escaped(name)} | {_sign(ours)} | {_sign(each.native.get(name))} | {why} |"
    yield ""
    yield "</details>"
    yield ""


def _passed(outcomes: Iterable[Outcome]) -> str:
    counts = Counter(outcome.result for outcome in outcomes)
    if not counts:
        return _NOT_RUN
    return f"{counts[Result.PASSED]} of {counts.total() - counts[Result.SKIPPED]}"


def _sign(outcome: Outcome | None) -> str:
    return _SIGN[outcome.result] if outcome else ""


def _why(class_name: str, outcome: Outcome, reasons: Reasons) -> str:
    """Empty if there is nothing to say."""
    match reasons.verdict(class_name, outcome):
        case Verdict.EXPECTED if reason := reasons.for_test(class_name, outcome):
            return _escaped(reason.why)
        case Verdict.UNEXPECTED:
            return f"not known: {_escaped(outcome.problem)[:200]}"
        case Verdict.STALE:
            return "passes, in spite of a reason why it could not"
        case _:
            return ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
