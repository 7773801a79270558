"""How do both sides of a TLS connection authenticate each other?"""
