"""Which SASL mechanisms are there, but for OAuth's?"""
