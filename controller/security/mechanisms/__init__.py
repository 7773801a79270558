"""Which SASL mechanisms are there, apart from OAuth's?"""
