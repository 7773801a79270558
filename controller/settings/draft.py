"""What has been read so far, and what is wrong with it?"""

from __future__ import annotations

from collections.abc import Callable

from controller.settings.kinds import Value
from controller.settings.providers import redacted
from controller.settings.setting import Setting
from controller.settings.sources import Given
from controller.settings.table import SETTINGS
from controller.settings.values import shown


class Draft:
    """Values on their way to `Settings`; collects problems, so that all can be shown together."""

    def __init__(self, given: dict[str, Given], problems: list[str]) -> None:
        """Parses each value by its kind; an unreadable one counts as not set."""
        self.given = given
        self.problems = problems
        self.values: dict[str, Value | None] = {setting.key: self._read(setting) for setting in SETTINGS}
        for setting in SETTINGS:
            if setting.same_as is not None and self.values[setting.key] is None:
                self.values[setting.key] = self.values[setting.same_as]

    def text(self, key: str) -> str:
        """A value as text; empty if it is not set."""
        return str(self.values[key] or "")

    def is_given(self, key: str) -> bool:
        """Whether this key has a value that is not empty."""
        return key in self.given and bool(self.given[key].text)

    def complain(self, key: str, what: str) -> None:
        """Record what is wrong with a value, which one it is and where it was written."""
        if key in self.given:
            given = self.given[key]
            reason = redacted(what, given.text) if given.written else what
            self.problems.append(f"{given.where}: {key} = {shown(key, given.written or given.text)}: {reason}")
        else:
            self.problems.append(f"{key}: {what}")

    def check(self, key: str, read: Callable[[str], object]) -> None:
        """Check a value with a parser that knows more than its kind."""
        if self.values[key] is not None:
            try:
                read(self.text(key))
            except ValueError as error:
                self.complain(key, str(error))

    def _read(self, setting: Setting) -> Value | None:
        if setting.kind.may_be_empty and setting.key in self.given and not self.given[setting.key].text:
            return ""
        if not self.is_given(setting.key):
            if setting.is_required and not (setting.key in self.given and self.given[setting.key].written):
                self.problems.append(f"{setting.key} is missing: {setting.doc}")
            return setting.default
        try:
            return setting.kind.read(self.given[setting.key].text)
        except ValueError as error:
            self.complain(setting.key, str(error))
            return setting.default
