"""May a move of a partition begin, what is its next step, and when is it over?"""
