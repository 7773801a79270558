"""How does docs/kafka-tests.md tell what became of Kafka's own tests?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.kafka.keeping import Ran
from tests.kafka.reports import Outcome, Result
from tests.kafka.running import Controller
from tests.kafka.verdicts import Reasons, Verdict

_HEAD = """\
# Kafka's own tests

<!-- Made by `make kafka-tests`. -->

Kafka's own integration tests, as Kafka publishes them beside each release, once with this controller in charge of the
brokers that they start and, as a control on the same machine, once with Kafka's own. Invocations that run without
ZooKeeper are left out. `make kafka-tests` runs them and makes this page from the last run of each class; the reasons
are in [tests/kafka/inapplicable.toml](../tests/kafka/inapplicable.toml). A failure without a reason fails the run, and
so does a test that passes in spite of its reason, and so one that passes under another controller than it should.

The tests are as Kafka publishes them. Of what they share, some things besides the start of a controller are changed for
this one: tests of single requests, which look for the broker that is the controller, find this controller's address;
those that ask that broker for the ids of topics are told ZooKeeper's; and where nodes are counted until all brokers
have started, or know each other, there is one more.
"""
_SIGN = {Result.PASSED: "✓", Result.FAILED: "✗", Result.SKIPPED: "skipped"}


def as_markdown(ran: Mapping[str, Sequence[Ran]], reasons: Mapping[str, Reasons]) -> str:
    """The page; of each version what was kept and why what fails does."""
    lines = [_HEAD]
    for version, classes in ran.items():
        if classes:
            lines += _version(version, classes, reasons[version])
    return "\n".join(lines)


def _version(version: str, ran: Sequence[Ran], reasons: Reasons) -> Iterator[str]:
    days = sorted({each.day for each in ran})
    java = ", ".join(sorted({str(each.java) for each in ran}))
    yield f"## {version}"
    yield ""
    yield f"Run {' to '.join(dict.fromkeys((days[0], days[-1])))} with Java {java}. {_totals(ran, reasons)}"
    yield ""
    yield "| test | ours | Kafka's own | why |"
    yield "| --- | --- | --- | --- |"
    by_class: dict[str, dict[Controller, Ran]] = {}
    for each in ran:
        by_class.setdefault(each.class_name, {})[each.controller] = each
    for class_name, found in sorted(by_class.items()):
        ours, native = (_by_name(found.get(controller)) for controller in (Controller.OURS, Controller.NATIVE))
        yield f"| **{class_name}** | {_passed(ours)} | {_passed(native)} | |"
        for name in sorted({**ours, **native}):
            cells = (_escaped(name), _sign(ours.get(name)), _sign(native.get(name)))
            why = _why(class_name, ours.get(name), reasons)
            yield f"| {' | '.join(cells)} | {why} |"
    yield ""


def _by_name(ran: Ran | None) -> dict[str, Outcome]:
    return {outcome.name: outcome for outcome in ran.outcomes} if ran else {}


def _passed(outcomes: Mapping[str, Outcome]) -> str:
    if not outcomes:
        return "not run"
    return f"{sum(o.result is Result.PASSED for o in outcomes.values())} of {len(outcomes)}"


def _sign(outcome: Outcome | None) -> str:
    return _SIGN[outcome.result] if outcome else ""


def _why(class_name: str, outcome: Outcome | None, reasons: Reasons) -> str:
    if outcome is None or outcome.result is Result.PASSED:
        return ""
    if outcome.result is Result.FAILED and (reason := reasons.for_test(class_name, outcome)):
        return _escaped(reason.why)
    return f"not known: {_escaped(outcome.problem)[:200]}" if outcome.result is Result.FAILED else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _totals(ran: Sequence[Ran], reasons: Reasons) -> str:
    ours = Counter(
        reasons.verdict(each.class_name, outcome)
        for each in ran
        if each.controller is Controller.OURS
        for outcome in each.outcomes
    )
    native = Counter(o.result for each in ran if each.controller is Controller.NATIVE for o in each.outcomes)
    counted = ours.total() - ours[Verdict.SKIPPED]
    unexplained = ours[Verdict.UNEXPECTED]
    return (
        f"Of {counted} tests {counted - ours[Verdict.EXPECTED] - unexplained} pass with this controller, "
        f"{ours[Verdict.EXPECTED]} cannot for a reason given below, {unexplained} fail without one; with Kafka's own "
        f"{native[Result.PASSED]} of {native[Result.PASSED] + native[Result.FAILED]} pass."
    )
