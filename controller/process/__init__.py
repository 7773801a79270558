"""How do the parts make one process: its settings, its claims, one term after another?"""
