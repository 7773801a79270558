"""Which tables are sums over many rows, and no fold of one partition?"""
