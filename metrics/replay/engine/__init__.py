"""How is the work cut into tasks, and where do they run?"""
