"""Operation policies: the host's say in what may be done."""

from imgproc_adapters.policy.allow_all import AllowAllPolicy
from imgproc_adapters.policy.unavailable import UnavailablePolicy

__all__ = ["AllowAllPolicy", "UnavailablePolicy"]
