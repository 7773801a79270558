"""Kafka's own integration tests, with this controller in charge of the brokers that they start."""
