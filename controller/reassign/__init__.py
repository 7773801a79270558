"""`kafka-zk-controller reassign`: moving partitions from the command line."""
