"""What does a move of every partition look like, with a leading controller that dies half-way? `make demo` shows it."""
