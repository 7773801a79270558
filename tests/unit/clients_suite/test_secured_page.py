"""The page of logins shows refused users, users let in by mistake, and errors that differ between the nodes."""

from __future__ import annotations

from tests.clients.secured import BROKER, OURS, Outcome, page, troubles


def seen(node: str, refused: str | None, *, is_welcome: bool, way: str = "PLAIN") -> Outcome:
    return Outcome("x 1", way, "SASL_PLAINTEXT", node, is_welcome, refused)


def both(ours: str | None, brokers: str | None) -> list[Outcome]:
    """Both nodes let Alice in, and answer wrong credentials with these errors."""
    welcome = [seen(node, None, is_welcome=True) for node in (OURS, BROKER)]
    return [*welcome, seen(OURS, ours, is_welcome=False), seen(BROKER, brokers, is_welcome=False)]


def row(outcomes: list[Outcome]) -> str:
    text = page(outcomes, {"x 1": frozenset({"GSSAPI"})}, {})
    return next(line for line in text.splitlines() if line.startswith("| x 1 |"))


def test_who_is_let_in_as_expected() -> None:
    outcomes = both("no", "no")

    assert troubles(outcomes) == []
    assert row(outcomes) == "| x 1 | ✓ |  |  |  | – |  |"
    assert "Every client gets the same error from both nodes." in page(outcomes, {"x 1": frozenset()}, {})


def test_what_is_not_as_expected() -> None:
    outcomes = [*both(None, "no"), seen(BROKER, "timed out", is_welcome=True)]

    assert troubles(outcomes) == [
        "x 1, PLAIN over SASL_PLAINTEXT at our controller: let in by mistake",
        "x 1, PLAIN over SASL_PLAINTEXT at a broker: timed out",
    ]
    assert row(outcomes) == "| x 1 | ✗ at a broker and our controller |  |  |  | – |  |"


def test_errors_that_differ_are_shown() -> None:
    assert "| x 1 | PLAIN | no | never |" in page(both("no", "never"), {"x 1": frozenset()}, {})
