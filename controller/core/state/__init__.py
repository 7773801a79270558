"""What is known of the cluster: the facts in ZooKeeper, and what brokers and clients said in this term?"""
