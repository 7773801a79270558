"""What becomes of a topic: its creation, growth, ids and deletion?"""
