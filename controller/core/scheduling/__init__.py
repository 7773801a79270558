"""When is which work done again?"""
