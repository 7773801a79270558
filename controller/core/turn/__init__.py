"""What makes a turn: the protocol of duties, what they share, what comes in?"""
