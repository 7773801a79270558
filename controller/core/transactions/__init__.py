"""Which writes go to ZooKeeper together, which are in flight, and what if they are refused?"""
