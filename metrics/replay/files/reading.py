"""How much of a file is read at once?"""

CHUNK_BYTES = 8 << 20
