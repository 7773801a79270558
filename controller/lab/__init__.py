"""Which real servers can run on this machine without Docker? ZooKeeper, Kafka brokers, and our own."""
