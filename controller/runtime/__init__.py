"""How does the machine run on an event loop, and how is what it does recorded?"""
