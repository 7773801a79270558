"""What do ZooKeeper's own files say: its transaction logs and snapshots?"""
