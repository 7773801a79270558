"""Which settings does a replica begin with beside a running cluster? For `kafka-zk-controller init`."""
