"""How do commands reach every broker, in order?"""
