"""What happened to a cluster, and was it right? Its history from ZooKeeper's own files."""

from typing import Final

# By the wheel's name: a stranger may own the project's on the public index.
INSTALL_THE_EXTRA: Final = (
    "install it with the extra [replay] of the wheel: pip install 'kafka_zk_controller-….whl[replay]'"
)
