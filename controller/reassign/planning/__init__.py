"""Plans for many partitions, made without any connection."""
