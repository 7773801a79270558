"""What makes a turn: the protocol of duties, what they share, and what comes in?"""
