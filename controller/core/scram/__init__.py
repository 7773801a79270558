"""Which SCRAM credentials may be changed, and what is written then?"""
