"""The local visual model: one 768-d unit vector and the class logits per picture."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from attrs import frozen
from numpy.typing import NDArray
from PIL import Image

from imgproc_adapters.visual.concepts import Tag, tags
from imgproc_adapters.visual.descriptor import DESCRIPTOR_SIZE, describe, unit
from imgproc_adapters.visual.network import FEATURES, cached_network
from imgproc_adapters.visual.weights import DIMENSION

_SIDE: Final = 224
_CLASSIC_WEIGHT: Final = np.float32(0.7)
_PROJECTION_SEED: Final = b"imgproc visual projection 1"


@frozen
class Sight:
    """What the model made of one picture: `vector` float32 (768,), unit length; `logits` float32 (1000,)."""

    vector: NDArray[np.float32]
    logits: NDArray[np.float32]

    def tags(self, minimum: float = 0.3) -> tuple[Tag, ...]:
        """Subjects with at least `minimum` probability, likeliest first."""
        return tags(self.logits, minimum)


class VisualModel:
    """EfficientNet-Lite0 on ONNX Runtime, one thread. Loading takes about 0.2 s, a picture about 20 ms."""

    def __init__(self, weights: Path, cache: Path) -> None:
        network = cached_network(weights, cache)
        self._session = onnxruntime.InferenceSession(
            str(network), _session_options(), providers=["CPUExecutionProvider"]
        )
        self._projection = projection()

    def see(self, images: Sequence[Image.Image]) -> list[Sight]:
        """One `Sight` per normalized RGB image, in order; the batch runs as one call of the network."""
        if not images:
            return []
        batch = np.stack([_prepared(image) for image in images])
        features, logits = self._session.run(["features", "logits"], {"input": batch})
        return [
            Sight(self._vector(image, row), logit) for image, row, logit in zip(images, features, logits, strict=True)
        ]

    def embed(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        """Float32 (n, 768), rows of unit length, for n normalized RGB images."""
        rows = [sight.vector for sight in self.see(images)]
        return np.stack(rows) if rows else np.empty((0, DIMENSION), np.float32)

    def _vector(self, image: Image.Image, features: NDArray[np.float32]) -> NDArray[np.float32]:
        both = np.concatenate([unit(features), _CLASSIC_WEIGHT * describe(image)])
        return unit(both @ self._projection)


def projection() -> NDArray[np.float32]:
    """The fixed (features, 768) matrix of equally likely +1 and -1, scaled; it keeps angles (Achlioptas, 2003).

    Its signs are the bits of SHAKE-256 over a constant: the same matrix on every machine, in every version.
    """
    rows = FEATURES + DESCRIPTOR_SIZE
    stream = hashlib.shake_256(_PROJECTION_SEED).digest(rows * DIMENSION // 8)
    bits = np.unpackbits(np.frombuffer(stream, np.uint8)).astype(np.float32)
    return (bits.reshape(rows, DIMENSION) * 2 - 1) / np.float32(np.sqrt(DIMENSION))


def _prepared(image: Image.Image) -> NDArray[np.float32]:
    square = image.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC, reducing_gap=2.0)
    return ((np.asarray(square, np.float32) - 127.0) / np.float32(128.0)).transpose(2, 0, 1)


def _session_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options
