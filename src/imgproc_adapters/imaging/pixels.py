"""Any pixel mode to opaque 8-bit RGB."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_WHITE = (255, 255, 255, 255)
_SIXTEEN_BIT = 65_535


def to_rgb(image: Image.Image) -> Image.Image:
    """A new RGB image: alpha composited on white, deep greys scaled (never clipped), the rest converted."""
    if image.mode in {"I", "F"} or image.mode.startswith("I;"):
        return Image.fromarray(_to_eight_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        ground = Image.new("RGBA", rgba.size, _WHITE)
        ground.alpha_composite(rgba)
        return ground.convert("RGB")
    return image.convert("RGB")


def is_blank(image: Image.Image) -> bool:
    """True if every pixel of the RGB image has the same colour."""
    # stubs give the union over all band counts; RGB has three (low, high) pairs
    return all(low == high for low, high in image.getextrema())  # type: ignore[misc]


def _to_eight_bits(grey: NDArray[np.generic]) -> NDArray[np.uint8]:
    deep = np.nan_to_num(grey.astype(np.float64))
    low, high = float(deep.min()), float(deep.max())
    if np.issubdtype(grey.dtype, np.integer) and low >= 0 and high <= _SIXTEEN_BIT:
        low, high = 0.0, float(_SIXTEEN_BIT)
    elif low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    span = (high - low) or 1.0
    return np.rint((deep - low) * (255.0 / span)).astype(np.uint8)
