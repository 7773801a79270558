"""Which error reports a broken promise?"""


class Broken(Exception):
    """A promise was broken."""


def hold(wrong: str | None) -> None:
    """Raise `Broken` if something is wrong."""
    if wrong is not None:
        raise Broken(wrong)
