"""What can go wrong with servers on this machine?"""


class LabError(Exception):
    """Something this machine lacks, or a server that did not do its part; the text says what to do."""


class JavaUnavailable(LabError):
    """No Java that is new enough was found."""


class JarsUnavailable(LabError):
    """The jars of one version are neither in the cache nor could they be had."""

    def __init__(self, version: str, reason: str) -> None:
        super().__init__(f"the jars of Kafka {version} are not available: {reason}")
        self.version = version
        self.reason = reason


class ServerFailed(LabError):
    """A process ended or stayed silent; the text ends with the tail of its log."""
