"""Many machines on one: a database and workers, each in a network namespace of its own, one cut off and one slow."""
