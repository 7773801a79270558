"""How is the work cut into tasks, and where are they done?"""
