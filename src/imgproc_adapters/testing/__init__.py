"""For a host's tests: contract suites per port, scripted models, factories and invariants. Importing it needs nothing.

`contracts` needs pytest and pytest-asyncio, `strategies` needs hypothesis; everything else only imgproc.
"""
