"""Which rights may be listed, added or removed, and what is written then?"""
