"""Does the controller that leads decide as this one would?"""
