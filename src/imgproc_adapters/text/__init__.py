"""Text vectors from a model on this machine; needs the `local` extra."""
