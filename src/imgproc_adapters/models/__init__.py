"""Local models in processes of their own, and the ports they serve."""
