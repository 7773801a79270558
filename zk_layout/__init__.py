"""What does Kafka keep in ZooKeeper? Its znodes as typed values."""
