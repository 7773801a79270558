"""Try what nobody should ever send: `python -m tests.fuzz znodes --worlds 100000`."""

from __future__ import annotations

import click

from tests.fuzz import znodes


@click.group()
def main() -> None:
    """What is to be tried?"""


main.add_command(znodes.command, "znodes")

if __name__ == "__main__":
    main()
