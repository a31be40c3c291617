"""The decisions of imgproc: values, state machines, ports and use cases. No I/O, no clock, no framework."""
