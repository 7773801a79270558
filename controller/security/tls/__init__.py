"""How do both sides of a TLS connection know each other?"""
