"""May a leader change its in-sync replicas?"""
