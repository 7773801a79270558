"""What is raised when a promise does not hold."""


class Broken(Exception):
    """A promise was broken."""
