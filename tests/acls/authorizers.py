"""How does a test use Kafka's own authorizers? They run in a JVM, over a real ZooKeeper."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from controller.lab.errors import ServerFailed
from tests.equipment.java_program import compiled
from zk_layout.znodes.acls import AclEntry, ResourcePattern

_SOURCE = Path(__file__).with_name("Authorizers.java")
_ACL, _SIMPLE = "kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"


class Implementation(Struct, frozen=True):
    """One released authorizer of Kafka's.

    Shape:
        `judges_types` since it can be asked for any resource of a type (KIP-679). `knows_users` since there are rights
        to users and their tokens (KIP-373).
    """

    version: str
    class_name: str
    judges_types: bool
    knows_users: bool

    @property
    def name(self) -> str:
        """For people, and to choose it by."""
        return f"{self.version} {self.class_name.rpartition('.')[2]}"


IMPLEMENTATIONS = (
    Implementation("2.4.1", _SIMPLE, judges_types=False, knows_users=False),
    Implementation("2.4.1", _ACL, judges_types=False, knows_users=False),
    Implementation("2.8.2", _ACL, judges_types=True, knows_users=False),
    Implementation("3.9.1", _ACL, judges_types=True, knows_users=True),
)


def _literally(pattern: ResourcePattern) -> str:
    return f"{pattern.resource_type.name}\t{pattern.pattern_type}\t{pattern.name}"


class Authorizers:
    """Two of them: one denies resources without ACLs, the other allows them. Both follow ZooKeeper."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._expect("ready")

    def delete(self, pattern: ResourcePattern) -> None:
        """Delete all entries of a pattern."""
        self._say(f"delete\t{_literally(pattern)}")
        self._expect("deleted")

    def create(self, pattern: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        """Add entries."""
        for entry in entries:
            given = f"{entry.principal}\t{entry.host}\t{entry.operation.name}\t{entry.permission.name}"
            self._say(f"create\t{_literally(pattern)}\t{given}")
        self._say("created")
        self._expect("created")

    def wait_for(self, pattern: ResourcePattern, host: str) -> None:
        """Go on when both know that there are rights from a host, and so all that was written to patterns of its kind
        before."""
        self._say(f"await\t{_literally(pattern)}\t{host}")

    def decisions(self, wanted: Iterable[str]) -> list[str]:
        """Both decisions, such as `DA`, on each request in the form of `acl_cases`."""
        lines = list(wanted)
        for line in lines:
            self._say(line)
        return [self._answer() for _ in lines]

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")

    def _answer(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise ServerFailed(f"Kafka's authorizer gave up:\n{self._errors.read_text()[-3000:]}")
        return answer

    def _expect(self, answer: str) -> None:
        found = self._answer()
        if found != answer:
            raise ServerFailed(f"Kafka's authorizer said {found!r} in place of {answer!r}")


@contextmanager
def running(implementation: Implementation, zookeeper: str, super_users: str) -> Iterator[Authorizers]:
    """Compile and start them.

    Raises:
        LabError: there is no Java, or there are no jars, or they do not start.
    """
    with compiled(_SOURCE, implementation.version) as (directory, program):
        argv = [*program, implementation.class_name, zookeeper, super_users]
        errors = directory / "errors.log"
        with errors.open("w") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8"
            )
        try:
            yield Authorizers(process, errors)
        finally:
            process.kill()
            process.communicate()
