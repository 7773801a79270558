"""What is raised when a promise does not hold."""


class Broken(Exception):
    """A promise was broken."""


def hold(wrong: str | None) -> None:
    """Raise `Broken` where something is wrong."""
    if wrong is not None:
        raise Broken(wrong)
