"""Try what nobody should ever send: `python -m tests.fuzz frames --frames 1000000`."""

from __future__ import annotations

import click

from tests.fuzz import frames


@click.group()
def main() -> None:
    """What is to be tried?"""


main.add_command(frames.command, "frames")

if __name__ == "__main__":
    main()
