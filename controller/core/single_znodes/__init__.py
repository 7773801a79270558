"""Which duties own one znode each, and no more?"""
