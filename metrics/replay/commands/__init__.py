"""Which commands and functions does the replay offer?"""
