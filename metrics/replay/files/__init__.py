"""Where do the bytes come from, and where do the tables go?"""
