"""What does a stranger need to know to help with this process, and what must they not learn? For `diagnose`."""
