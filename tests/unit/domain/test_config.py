"""The configuration a job is frozen under has one fingerprint."""

import re

import pytest
from attrs import evolve
from tests.unit.domain.build import CONFIG

from imgproc_domain.config import ProcessingConfig, VectorSpace
from imgproc_domain.context import SCHEMA_VERSION

OTHER = {
    "visual model": evolve(CONFIG, visual=VectorSpace("visual-2", 8)),
    "visual dimension": evolve(CONFIG, visual=VectorSpace("visual-1", 9)),
    "agent": evolve(CONFIG, agent_fingerprint="agent-2"),
    "text model": evolve(CONFIG, text=VectorSpace("text-2", 8)),
    "text dimension": evolve(CONFIG, text=VectorSpace("text-1", 9)),
    "context schema": evolve(CONFIG, context_schema="context-2"),
    "models change places": evolve(CONFIG, visual=CONFIG.text, text=CONFIG.visual),
}


def test_equal_configurations_have_one_fingerprint() -> None:
    same = ProcessingConfig(VectorSpace("visual-1", 8), "agent-1", VectorSpace("text-1", 8))
    assert same.fingerprint == CONFIG.fingerprint
    assert re.fullmatch(r"[0-9a-f]{64}", CONFIG.fingerprint)


@pytest.mark.parametrize("change", OTHER)
def test_any_difference_makes_another_fingerprint(change: str) -> None:
    assert OTHER[change].fingerprint != CONFIG.fingerprint


def test_no_two_of_these_configurations_share_a_fingerprint() -> None:
    assert len({config.fingerprint for config in OTHER.values()}) == len(OTHER)


def test_a_configuration_is_of_the_present_context_schema_by_default() -> None:
    assert CONFIG.context_schema == SCHEMA_VERSION
