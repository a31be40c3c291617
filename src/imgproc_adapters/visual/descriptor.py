"""A classic description of a picture: where its colours are, which way its edges run, which colours it has.

It complements features of a classifier, which are made to ignore just that; together they find re-encoded,
cropped and captioned copies of one picture.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_GRID: Final = 8
_ORIENTATIONS: Final = 9
_HOG_SIDE: Final = 64
_LUMA_BINS, _CHROMA_BINS = 8, 4

DESCRIPTOR_SIZE: Final = _GRID * _GRID * (3 + _ORIENTATIONS) + _LUMA_BINS * _CHROMA_BINS * _CHROMA_BINS

Vector = NDArray[np.float32]


def describe(image: Image.Image) -> Vector:
    """`DESCRIPTOR_SIZE` float32 of unit length: three equally weighted parts. `image` is RGB of any size."""
    ycbcr = image.convert("YCbCr").resize((_HOG_SIDE, _HOG_SIDE), Image.Resampling.BOX, reducing_gap=2.0)
    pixels = np.asarray(ycbcr, dtype=np.float32) / 255.0
    parts = (_layout(pixels), _edges(pixels[..., 0]), _histogram(pixels))
    return np.concatenate(parts) / np.float32(np.sqrt(len(parts)))


def unit(vector: Vector) -> Vector:
    """`vector` scaled to length one; the zero vector stays zero."""
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length > 0 else vector


def _layout(pixels: Vector) -> Vector:
    cell = _HOG_SIDE // _GRID
    means = pixels.reshape(_GRID, cell, _GRID, cell, 3).mean(axis=(1, 3), dtype=np.float32)
    return unit((means - np.float32(0.5)).ravel())


def _edges(luma: Vector) -> Vector:
    dy, dx = np.gradient(luma)
    strength = np.hypot(dx, dy).ravel()
    turn = (np.arctan2(dy, dx) % np.pi).ravel() * (_ORIENTATIONS / np.pi)
    cell = np.arange(_HOG_SIDE) // (_HOG_SIDE // _GRID)
    where = (cell[:, None] * _GRID + cell[None, :]).ravel()
    index = where * _ORIENTATIONS + np.minimum(turn.astype(np.intp), _ORIENTATIONS - 1)
    counts = np.bincount(index, weights=strength, minlength=_GRID * _GRID * _ORIENTATIONS)
    return unit(np.sqrt(counts).astype(np.float32))


def _histogram(pixels: Vector) -> Vector:
    luma = np.minimum((pixels[..., 0] * _LUMA_BINS).astype(np.intp), _LUMA_BINS - 1)
    chroma = np.minimum((pixels[..., 1:] * _CHROMA_BINS).astype(np.intp), _CHROMA_BINS - 1)
    index = (luma * _CHROMA_BINS + chroma[..., 0]) * _CHROMA_BINS + chroma[..., 1]
    counts = np.bincount(index.ravel(), minlength=_LUMA_BINS * _CHROMA_BINS * _CHROMA_BINS)
    return unit(np.sqrt(counts).astype(np.float32))
