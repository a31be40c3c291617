"""What the domain needs from outside, as protocols named by role. Each method's docstring is its promise.

The contract suites in `imgproc_adapters.testing` hold every adapter to these promises.
"""
