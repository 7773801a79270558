"""What do ZooKeeper's transactions mean to Kafka?"""
