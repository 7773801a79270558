"""What do simulated brokers and the demo ask and answer? The other direction of `controller.wire`."""
