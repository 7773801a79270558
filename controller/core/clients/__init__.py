"""May a client ask for this, what is still missing from its answer, and when is it answered?"""
