"""Which files here are no tests' business? Programs that run in environments of their own."""

collect_ignore_glob = ["python/*"]
