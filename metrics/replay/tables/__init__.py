"""Which tables are sums over many rows, instead of folds over one partition?"""
