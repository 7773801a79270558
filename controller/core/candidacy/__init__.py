"""Should this replica claim `/controller`, wait, keep leading, or step down?"""
