"""EfficientNet-Lite0 as an ONNX graph, batch normalisation folded in, cached on disk.

Architecture: Tan & Le, "EfficientNet" (2019), in the Lite variant of TensorFlow's reference: no
squeeze-and-excite, ReLU6, fixed stem and head. Input `N x 3 x 224 x 224`, outputs the 1,280 pooled features and
the 1,000 logits.
"""

import os
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from attrs import define, field, frozen
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from imgproc_adapters.visual.weights import Weights, file_sha256, read_weights

FEATURES: Final = 1280
CLASSES: Final = 1000
_CONVERTER_VERSION: Final = 1
_EPSILON: Final = 1e-3


@frozen
class _Stage:
    kernel: int
    stride: int
    expand: int
    channels_in: int
    channels_out: int
    repeats: int


_STAGES: Final = (
    _Stage(3, 1, 1, 32, 16, 1),
    _Stage(3, 2, 6, 16, 24, 2),
    _Stage(5, 2, 6, 24, 40, 2),
    _Stage(3, 2, 6, 40, 80, 3),
    _Stage(5, 1, 6, 80, 112, 3),
    _Stage(5, 2, 6, 112, 192, 4),
    _Stage(3, 1, 6, 192, 320, 1),
)


def cached_network(source: Path, cache: Path) -> Path:
    """The ONNX file for the weights in `source`, made on first use.

    The name holds the hash of the source, so other weights make another file. Several processes may call at
    once: each writes its own temporary file and the last rename wins with equal bytes.
    """
    digest = file_sha256(source)
    target = cache / f"efficientnet-lite0-v{_CONVERTER_VERSION}-{digest[:16]}.onnx"
    if not target.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _write_atomically(target, build_network(read_weights(source)).SerializeToString())
    return target


def build_network(weights: Weights) -> onnx.ModelProto:
    """The graph with `weights` in it; raises `KeyError` when a layer is missing."""
    graph = _Graph(weights)
    x = graph.conv("input", "_conv_stem", "_bn0", stride=2)
    block = 0
    for stage in _STAGES:
        for repeat in range(stage.repeats):
            x = _inverted_residual(graph, x, f"_blocks.{block}", stage, first=repeat == 0)
            block += 1
    x = graph.conv(x, "_conv_head", "_bn1")
    graph.add("GlobalAveragePool", [x], "pooled")
    graph.add("Flatten", ["pooled"], "features")
    graph.constant("fc_w", np.ascontiguousarray(weights["_fc.weight"].T))
    graph.constant("fc_b", weights["_fc.bias"])
    graph.add("MatMul", ["features", "fc_w"], "scores")
    graph.add("Add", ["scores", "fc_b"], "logits")
    return graph.model()


def _inverted_residual(graph: "_Graph", x: str, name: str, stage: _Stage, *, first: bool) -> str:
    channels = stage.channels_in if first else stage.channels_out
    stride = stage.stride if first else 1
    y = x if stage.expand == 1 else graph.conv(x, f"{name}._expand_conv", f"{name}._bn0")
    groups = channels * stage.expand
    y = graph.conv(y, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride, groups=groups)
    y = graph.conv(y, f"{name}._project_conv", f"{name}._bn2", relu=False)
    if stride == 1 and channels == stage.channels_out:
        y = graph.add("Add", [y, x], f"{name}.sum")
    return y


@define
class _Graph:
    weights: Weights
    nodes: list[onnx.NodeProto] = field(factory=list, init=False)
    constants: list[onnx.TensorProto] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.constant("zero", np.float32(0))
        self.constant("six", np.float32(6))

    def constant(self, name: str, value: NDArray[np.generic] | np.float32) -> None:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def conv(self, x: str, conv: str, norm: str, *, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        kernel, bias = self._folded(conv, norm)
        self.constant(f"{conv}.w", kernel)
        self.constant(f"{conv}.b", bias)
        side = int(kernel.shape[2])
        y = self.add(
            "Conv",
            [x, f"{conv}.w", f"{conv}.b"],
            f"{conv}.out",
            kernel_shape=[side, side],
            strides=[stride, stride],
            group=groups,
            auto_pad="SAME_UPPER",
        )
        return self.add("Clip", [y, "zero", "six"], f"{conv}.relu6") if relu else y

    def _folded(self, conv: str, norm: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        kernel = self.weights[f"{conv}.weight"].astype(np.float32)
        gamma, beta, mean, variance = (
            self.weights[f"{norm}.{part}"].astype(np.float32)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma / np.sqrt(variance + np.float32(_EPSILON))
        return (kernel * scale[:, None, None, None]).astype(np.float32), (beta - mean * scale).astype(np.float32)

    def model(self) -> onnx.ModelProto:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "efficientnet-lite0",
            [value("input", TensorProto.FLOAT, ["N", 3, 224, 224])],
            [
                value("features", TensorProto.FLOAT, ["N", FEATURES]),
                value("logits", TensorProto.FLOAT, ["N", CLASSES]),
            ],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _write_atomically(target: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
