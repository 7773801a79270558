"""Should this replica claim `/controller`, wait, go on leading, or step down?"""
