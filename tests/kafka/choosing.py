"""Which classes of Kafka's tests run, and which settings does each need?"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.kafka.jars import line_of
from tests.kafka.running import Chosen

CLASSES_FILE = Path(__file__).with_name("classes.toml")


class Classes(msgspec.Struct, frozen=True):
    """The classes of one version."""

    all: tuple[str, ...]
    quick: tuple[str, ...]
    settings: Mapping[str, Mapping[str, str]] = {}

    def choose(self, wanted: str) -> list[Chosen]:
        """`all`, `quick`, `none`, or names with commas: of classes, with or without their package, or `Class.method`.

        Raises:
            ValueError: Nothing has this name.
        """
        groups = {"all": self.all, "quick": self.quick, "none": ()}
        if wanted in groups:
            return [self._chosen(name) for name in groups[wanted]]
        return [self._find(name.strip()) for name in wanted.split(",")]

    def _find(self, name: str) -> Chosen:
        owner, _, last = name.rpartition(".")
        for class_name, method in ((name, ""), (owner, last)):
            for known in self.all:
                if class_name and f".{known}".endswith(f".{class_name}"):
                    return self._chosen(known, method)
        if name.count(".") < 2:
            raise ValueError(f"no class is called {name}; one that is not in {CLASSES_FILE.name} needs its package")
        # Kafka's classes begin with a capital, its packages and methods do not.
        return self._chosen(owner, last) if last[:1].islower() else self._chosen(name)

    def _chosen(self, class_name: str, method: str = "") -> Chosen:
        of_methods = {
            name.rpartition(".")[2]: settings
            for name, settings in self.settings.items()
            if name.rpartition(".")[0] == class_name
        }
        return Chosen(class_name, method, self.settings.get(class_name, {}), of_methods)


def read_classes(version: str, file: Path = CLASSES_FILE) -> Classes:
    """The classes of this version.

    Raises:
        msgspec.ValidationError: The file is not as it should be.
    """
    return msgspec.convert(tomllib.loads(file.read_text())[line_of(version)], Classes)
