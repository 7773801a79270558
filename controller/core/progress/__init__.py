"""How far is each move, which request does it belong to, and what does it wait for?"""
