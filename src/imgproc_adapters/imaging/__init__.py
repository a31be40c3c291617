"""Pictures from strangers: what a file is, whether it is sound, and one way of turning it into pixels."""

from imgproc_adapters.imaging.decode import NORMALIZATION_VERSION, normalize, probe, thumbnail
from imgproc_adapters.imaging.limits import Limits

__all__ = ["NORMALIZATION_VERSION", "Limits", "normalize", "probe", "thumbnail"]
