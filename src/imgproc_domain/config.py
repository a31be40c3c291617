"""The processing configuration a deployment runs with, frozen into each job by its fingerprint."""

import hashlib
import json

from attrs import asdict, frozen

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

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the canonical JSON of this configuration."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()
