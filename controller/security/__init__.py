"""Who is at the other end of a connection, and who are we to it? TLS and SASL, without sockets."""
