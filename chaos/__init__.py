"""Chaos: real workers over a real server, killed, stopped, cut off and misled; then what is left is judged."""
