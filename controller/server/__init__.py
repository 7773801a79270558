"""Who may connect to this process, and who answers each request?"""
