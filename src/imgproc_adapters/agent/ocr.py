"""Reads the text inside a picture with RapidOCR (PP-OCR models bundled in its wheel), offline and on one thread."""

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from attrs import frozen
from PIL import Image

PACKAGE: Final = "rapidocr"
READER: Final = "rapidocr-3.10/PP-OCRv6-small"
_SAME_LINE: Final = 0.5
_BUNDLED: Final = {"Det": "PP-OCRv6_det_small.onnx", "Rec": "PP-OCRv6_rec_small.onnx"}


@frozen
class TextLine:
    """One recognised line: `confidence` 0..1, the rest its upright bounding box in pixels of the picture."""

    text: str
    confidence: float
    left: float
    top: float
    height: float


class TextReader:
    """Chinese and English text; loading takes about half a second, a picture about 0.4 s."""

    def __init__(self) -> None:
        # the package would otherwise log to the terminal and fetch models it has not bundled
        from rapidocr import RapidOCR  # noqa: PLC0415 - heavy, and only this process needs it

        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        self._engine = RapidOCR(params=_parameters(_bundled_models()))

    def read(self, image: Image.Image) -> tuple[TextLine, ...]:
        """The lines of a normalized RGB image in reading order; empty when there are none."""
        blue_first = np.ascontiguousarray(np.asarray(image)[..., ::-1])
        # the engine's call is declared as the union of its four modes; with detection and recognition it is this one
        found: Any = self._engine(blue_first)
        if not found.txts:
            return ()
        lines = (
            _line(text, score, box) for text, score, box in zip(found.txts, found.scores, found.boxes, strict=True)
        )
        return in_reading_order([line for line in lines if line.text])


def in_reading_order(lines: Sequence[TextLine]) -> tuple[TextLine, ...]:
    """Top to bottom; boxes whose middles lie within half a line of each other read left to right."""
    rows: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda line: line.top + line.height / 2):
        middle = line.top + line.height / 2
        if rows and middle - _middle(rows[-1]) < _SAME_LINE * min(line.height, rows[-1][0].height):
            rows[-1].append(line)
        else:
            rows.append([line])
    return tuple(line for row in rows for line in sorted(row, key=lambda line: line.left))


def _middle(row: Sequence[TextLine]) -> float:
    return sum(line.top + line.height / 2 for line in row) / len(row)


def _line(text: str, score: float, box: Sequence[Sequence[float]]) -> TextLine:
    xs, ys = [float(x) for x, _ in box], [float(y) for _, y in box]
    return TextLine(" ".join(text.split()), float(score), min(xs), min(ys), max(ys) - min(ys))


def _bundled_models() -> Path:
    spec = find_spec(PACKAGE)
    assert spec is not None, "the caller imported the package"
    assert spec.origin is not None, "a regular package has a file"
    return Path(spec.origin).parent / "models"


def _parameters(models: Path) -> dict[str, Any]:
    paths = {f"{part}.model_path": str(models / name) for part, name in _BUNDLED.items()}
    return {
        **paths,
        "Global.use_cls": False,
        "Global.log_level": "error",
        "Det.limit_type": "max",
        "Det.limit_side_len": 736,
        "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    }
