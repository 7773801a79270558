"""What do the bytes of each kind of znode say? A module a kind."""
