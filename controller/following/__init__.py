"""What does a process know of ZooKeeper whether or not it leads?"""
