"""Live through worlds until one breaks a promise: `python -m tests.mutants.live <first seed> <seeds> <seconds each>`.

The last line is the last seed, with the broken promise if any. A mistake may also keep a world from ever ending:
taking longer than a world takes breaks a promise, too.
"""

from __future__ import annotations

import os
import signal
import sys

import click

from tests.simulation.world import World


def main(start: int, seeds: int, limit_s: float) -> None:
    """Print one line a world.

    Units:
        `limit_s` is processor time, which other processes on the machine do not affect.
    """
    seed = start

    def hang(*_: object) -> None:
        # An error raised here may be caught and ignored.
        os.write(sys.stdout.fileno(), f"{seed} takes more than {limit_s:.0f} s of processor time\n".encode())
        os._exit(1)

    signal.signal(signal.SIGPROF, hang)
    for seed in range(start, start + seeds):
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        try:
            World(seed).run()
        except Exception as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            reason = " ".join(str(error).split())
            click.echo(f"{seed} {type(error).__name__}: {reason}")
            sys.exit(1)
        click.echo(seed)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
