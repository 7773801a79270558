"""How much may a client change, and how long must it wait then?"""
