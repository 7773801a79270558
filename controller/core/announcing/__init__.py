"""Which commands announce a change to brokers, and in which order?"""
