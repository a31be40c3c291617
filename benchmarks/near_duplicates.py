"""How alike edited copies are for the local visual model, and how alike different pictures.

`python -m benchmarks.near_duplicates` prints the tables of docs/similar.md, in about a minute.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.edits import EDITS, LINES, captioned, line_art, page, window
from benchmarks.models import sample_pictures
from imgproc_adapters.imaging import normalize
from imgproc_adapters.visual.embedder import VisualModel
from imgproc_adapters.visual.weights import weights_file

THRESHOLDS: Final = (0.85, 0.90, 0.92, 0.95)
_BATCH: Final = 8
_DRAWN: Final = 20

Vectors = NDArray[np.float32]


class Looking:
    """The model that looks at pictures, a few at a time."""

    def __init__(self, cache: Path) -> None:
        weights = weights_file()
        assert weights is not None, "the local models are installed"
        self._model = VisualModel(weights, cache)

    def at(self, pictures: Sequence[Image.Image]) -> Vectors:
        parts = [self._model.embed(pictures[n : n + _BATCH]) for n in range(0, len(pictures), _BATCH)]
        return np.concatenate(parts)


def row(name: str, scores: Vectors) -> str:
    shares = " | ".join(f"{(scores >= least).mean():.0%}" for least in THRESHOLDS)
    five, half, most = np.quantile(scores, [0.05, 0.5, 0.95])
    return f"| {name} | {scores.min():.2f} | {five:.2f} | {half:.2f} | {most:.2f} | {scores.max():.2f} | {shares} |"


def head(name: str) -> str:
    least = " | ".join(f">= {least:.2f}" for least in THRESHOLDS)
    return f"\n| {name} | least | 5 % | median | 95 % | most | {least} |\n" + "|---" * (6 + len(THRESHOLDS)) + "|"


def others(scores: Vectors) -> Vectors:
    """Return what is not on the diagonal: the scores of different pictures."""
    return scores[~np.eye(len(scores), dtype=bool)]


def tables(cache: Path) -> None:
    looking = Looking(cache)
    samples = [normalize(path) for path in sample_pictures()]
    vectors = looking.at(samples)
    same, different = [], [others(vectors @ vectors.T)]
    print(head("edited copy"))
    for name, edit in EDITS.items():
        scores = looking.at([edit(sample) for sample in samples]) @ vectors.T
        same.append(np.diag(scores))
        different.append(others(scores))
        print(row(name, np.diag(scores)))
    print(row("**all**", np.concatenate(same)))
    print(head("different pictures"))
    print(row("samples and their edits", np.concatenate(different)))
    for name, draw in (("line art", line_art), ("program windows", window)):
        drawn = looking.at([draw(seed) for seed in range(_DRAWN)])
        print(row(name, others(drawn @ drawn.T)))
    pages = looking.at([page(number) for number in range(len(LINES))])
    print(row("pages of text", others(pages @ pages.T)))
    first, second = ([captioned(s, LINES[(n + k) % len(LINES)]) for n, s in enumerate(samples)] for k in (0, 1))
    print(row("one picture under two captions", (looking.at(first) * looking.at(second)).sum(axis=1)))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        tables(Path(folder))
