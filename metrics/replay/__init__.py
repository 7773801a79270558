"""What happened to a cluster, and was it right? Its history from ZooKeeper's own files."""
