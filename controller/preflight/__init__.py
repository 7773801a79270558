"""Would this replica do a cluster good if it led it? Found out before the first claim, and by `run --check-cluster`."""
