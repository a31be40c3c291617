"""Benchmarks: everything compared is measured in one run, on one server."""
