"""Was each write right, and which rule explains it?"""
