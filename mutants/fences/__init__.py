"""The fences of the code, by where they stand."""
