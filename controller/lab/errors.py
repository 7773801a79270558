"""What can go wrong with servers on this machine?"""


class LabError(Exception):
    """This machine lacks something, or a server failed; the text says what to do."""


class JavaUnavailable(LabError):
    """No Java that is new enough was found."""


class JarsUnavailable(LabError):
    """The jars of one version are not in the cache and could not be downloaded."""

    def __init__(self, version: str, reason: str) -> None:
        super().__init__(f"the jars of Kafka {version} are not available: {reason}")
        self.version = version
        self.reason = reason


class ServerFailed(LabError):
    """A process ended or became silent; the text ends with the tail of its log."""
