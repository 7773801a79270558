"""Which bytes of the Kafka protocol stand for which values of the core?"""
