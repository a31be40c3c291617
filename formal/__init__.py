"""The protocol as a Promela model, and what checks it."""
