"""Other durable engines on the same server, each doing three empty steps a job.

`run` is ours. The other modules run in an environment of their own, with the packages of ``benchmarks/peers.lock``,
and import nothing of imgproc.
"""
