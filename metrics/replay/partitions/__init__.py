"""What became of one partition, one broker or one controller over time?"""
