"""A standalone controller for Kafka clusters in ZooKeeper mode."""
