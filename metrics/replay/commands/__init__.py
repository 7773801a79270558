"""What can a person or a notebook ask of the replay?"""
