"""What becomes of a text that the bundled model cannot embed, and of those that share its call."""

from typing import cast

import numpy as np
from attrs import define, field

from imgproc_adapters.models.host import ModelHost, ModelProblem
from imgproc_adapters.models.local import LocalTextModel
from imgproc_adapters.models.wire import Problem
from imgproc_domain.config import VectorSpace
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.ports.models import Declined
from imgproc_domain.vector import Vector

UNIT = np.array([0.6, 0.8], dtype=np.float32).tobytes()


@define
class FailingHost:
    """A process that answers every call but those that one text is in."""

    problem: Problem
    calls: list[list[str]] = field(factory=list)

    async def run(self, _: object, texts: list[str], __: object) -> list[bytes]:
        self.calls.append(texts)
        if "bad" in texts:
            raise ModelProblem(self.problem)
        return [UNIT for _ in texts]


def model_of(host: FailingHost) -> LocalTextModel:
    return LocalTextModel(cast("ModelHost", host), VectorSpace("two", 2))


async def test_a_text_that_the_model_cannot_embed_costs_its_neighbours_one_more_call() -> None:
    host = FailingHost(Problem("failed", "MemoryError", "too much"))
    first, bad, blank, last = await model_of(host).embed_documents(["good", "bad", " ", "fine"])
    assert isinstance(first, Vector)
    assert isinstance(last, Vector)
    assert isinstance(bad, Declined)
    assert (bad.diagnosis.code, bad.transient) == (ErrorCode.EMBEDDING_FAILED, False)
    assert isinstance(blank, Declined)
    assert host.calls == [["good", "bad", "fine"], ["good"], ["bad"], ["fine"]]


async def test_a_model_that_is_not_there_is_asked_once() -> None:
    host = FailingHost(Problem("missing", "FileNotFoundError", "no model"))
    answers = await model_of(host).embed_documents(["good", "bad"])
    codes = [answer.diagnosis.code for answer in answers if isinstance(answer, Declined)]
    assert codes == [ErrorCode.EMBEDDING_NOT_CONFIGURED] * 2
    assert len(host.calls) == 1
