"""The processing configuration a deployment runs with, frozen into each job by its fingerprint."""

import hashlib
import json
from functools import cached_property

from attrs import asdict, fields, frozen

from imgproc_domain.context import SCHEMA_VERSION


@frozen
class VectorSpace:
    """Vectors are comparable only within one space: model, revision, weights and preprocessing, all named by ``id``."""

    id: str
    dimension: int


@frozen
class ProcessingConfig:
    """What the three stages are made with. Any difference makes the products of the stage stale."""

    visual: VectorSpace
    agent_fingerprint: str
    text: VectorSpace
    context_schema: str = SCHEMA_VERSION

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the canonical JSON of this configuration."""
        made_with = {field.name: getattr(self, field.name) for field in fields(ProcessingConfig)}
        canonical = json.dumps(made_with, default=asdict, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()
