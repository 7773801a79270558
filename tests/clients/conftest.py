"""Which files here are no tests? Programs that run in their own environments."""

collect_ignore_glob = ["python/*"]
