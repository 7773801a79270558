"""What goes into the machine, and what comes out of it?"""
