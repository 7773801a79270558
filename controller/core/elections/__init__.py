"""Who leads each partition?"""
