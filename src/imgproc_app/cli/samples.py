"""The sample pictures, and what may be asked of them."""

import json
from pathlib import Path

import cattrs
from attrs import frozen

from imgproc_domain.errors import ImgprocError


class SamplesMissing(ImgprocError):
    """This installation has no sample pictures."""

    code = "samples_missing"


@frozen
class Question:
    """A query and the file that should be among its first three answers; None if nobody knows."""

    query: str
    language: str
    file: str | None


def samples_folder() -> Path:
    """Return the folder of samples: inside the package when installed, at the top of a source tree otherwise.

    Raises:
        SamplesMissing: it is in neither place.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "samples", package.parents[1] / "samples"):
        if (folder / "queries.json").is_file():
            return folder
    raise SamplesMissing("the sample pictures are not installed: name a FOLDER of your own")


def read_questions(folder: Path) -> list[Question]:
    raw = json.loads((folder / "queries.json").read_text("utf-8"))
    return cattrs.structure(raw, list[Question])
