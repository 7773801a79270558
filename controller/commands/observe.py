"""How is a cluster observed before this controller leads it, without any change to it?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from controller.commands.common import CONFIG
from controller.commands.run import begin_logs, checked


@click.command()
@click.option("--config", "config", type=CONFIG, help="Properties file, as for `run`.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one key; may be repeated.")
def observe(config: Path | None, overrides: tuple[str, ...]) -> None:
    """Follow a cluster that others lead, and show it over HTTP. Never writes to ZooKeeper, never claims /controller.

    The first step for any cluster. It takes the same configuration as `run`, and says whether a replica with it could
    lead. It does not register as a broker, listens on http.port only, and sends brokers nothing but questions; a user
    of ZooKeeper that may only read is enough. The replicas of this controller may run beside it.

    \b
      kafka-zk-controller observe --config controller.properties
      kafka-zk-controller observe --config controller.properties --set http.port=9641
      kafka-zk-controller status

    Exit codes: 0 stopped on request, 1 failed, 2 invalid configuration.
    """
    settings = checked(config, overrides, as_json=False)
    begin_logs(settings)
    from controller.process import observer

    sys.exit(observer.run(settings))
