"""The fences of the code, removed one at a time, and what checks that a test fails for each."""
