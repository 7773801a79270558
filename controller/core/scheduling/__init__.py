"""When is what looked at again?"""
