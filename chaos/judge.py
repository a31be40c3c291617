"""All judges over everything that is left of a run."""

from collections.abc import Sequence

from chaos.evidence import Evidence, Offence
from chaos.judge_calls import judge_calls
from chaos.judge_rest import judge_rest
from chaos.judge_writes import judge_writes


def judge(evidence: Evidence) -> Sequence[Offence]:
    """Return every broken promise that the evidence shows."""
    return [*judge_rest(evidence), *judge_calls(evidence), *judge_writes(evidence)]
