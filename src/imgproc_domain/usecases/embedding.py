"""Ask a text model for vectors, and take nothing that does not belong into its space."""

import asyncio
import math
from collections.abc import Sequence
from typing import Final

from imgproc_domain.config import VectorSpace
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ports.models import Declined, Lost, TextModel
from imgproc_domain.vector import Vector

_LENGTH_TOLERANCE: Final = 1e-3


async def embed_documents(model: TextModel, texts: Sequence[str]) -> Sequence[Vector | Diagnosis]:
    """Return one unit vector of the model's space a text, in order, or why there is none.

    Nothing but cancellation leaves this: a model that raises, answers too late or too few is a diagnosis of each text.
    """
    deadline = model.hard_deadline.total_seconds()
    try:
        async with asyncio.timeout(deadline):
            answers = await model.embed_documents(texts)
    except TimeoutError:
        return [Diagnosis(ErrorCode.EMBEDDING_FAILED, f"no answer within {deadline:g} s")] * len(texts)
    except Exception as error:  # noqa: BLE001 - an adapter's bug costs these texts their vectors and nothing else
        return [Diagnosis(ErrorCode.EMBEDDING_FAILED, f"the adapter raised {type(error).__name__}")] * len(texts)
    if len(answers) != len(texts):
        message = f"the model gave {len(answers)} answers to {len(texts)} texts"
        return [Diagnosis(ErrorCode.EMBEDDING_FAILED, message)] * len(texts)
    return [_fitting(answer, model.space) for answer in answers]


def why_unfit(vector: Vector, space: VectorSpace) -> Diagnosis | None:
    """Return why a vector cannot be one of a space: another dimension, or no unit vector at all."""
    if vector.dimension != space.dimension:
        message = f"the model returned {vector.dimension} components where its space has {space.dimension}"
        return Diagnosis(ErrorCode.EMBEDDING_DIMENSION_MISMATCH, message)
    # not a number is nearer to nothing
    if not abs(math.hypot(*vector.components) - 1.0) <= _LENGTH_TOLERANCE:
        return Diagnosis(ErrorCode.EMBEDDING_INVALID, "the model returned a vector that is not of unit length")
    return None


def _fitting(answer: Vector | Declined | Lost, space: VectorSpace) -> Vector | Diagnosis:
    match answer:
        case Vector():
            return why_unfit(answer, space) or answer
        case Declined(diagnosis) | Lost(diagnosis):
            return diagnosis
