"""Whose is a token of OAuth, and where do our own come from?"""
