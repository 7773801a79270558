"""What do brokers hear of a change: which commands, in which order?"""
