"""How do whole Kafka messages travel over one TCP connection?"""
