"""Try hostile input: `python -m tests.fuzz frames --frames 1000000`."""

from __future__ import annotations

import click

from tests.fuzz import frames, stores, znodes


@click.group()
def main() -> None:
    """Try hostile input of one kind."""


main.add_command(frames.command, "frames")
main.add_command(znodes.command, "znodes")
main.add_command(stores.command, "stores")

if __name__ == "__main__":
    main()
