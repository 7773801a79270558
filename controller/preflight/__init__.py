"""Would this replica do a cluster good if it led it? Checked before the first claim, and by `run --check-cluster`."""
