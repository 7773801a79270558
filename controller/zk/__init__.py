"""What does ZooKeeper hold, and how is it changed safely?"""
