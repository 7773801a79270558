"""How is this process asked over HTTP, by whom, and how does it ask others?"""
