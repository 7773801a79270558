"""Whose is an OAuth token, and where do our own come from?"""
