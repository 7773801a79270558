"""How is a scenario played? Blocks of commands, each followed by what came of it."""

from __future__ import annotations

from tests.scenarios.commands import obey
from tests.scenarios.theatre import Theatre

LINE = "----"


def play(text: str) -> str:
    """The same text with the output below each line that it has now.

    Shape:
        A block is comments and commands, a line `----`, and the output up to the next empty line.
    """
    theatre = Theatre()
    played = []
    for block in text.strip("\n").split("\n\n"):
        commands = block.split(f"\n{LINE}")[0]
        theatre.output.clear()
        for line in commands.splitlines():
            if line and not line.startswith("#"):
                obey(theatre, line)
        played.append("\n".join([commands, LINE, *theatre.output]))
    return "\n\n".join(played) + "\n"
