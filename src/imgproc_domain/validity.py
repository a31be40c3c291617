"""Whether a stage's product is valid for the picture as it is now. A task's history never proves it."""

from typing import assert_never

from imgproc_domain.config import ProcessingConfig
from imgproc_domain.context import USABLE, Context, is_described_by_person
from imgproc_domain.ids import Sha256
from imgproc_domain.product import Products, TextStamp, VisualStamp
from imgproc_domain.stage import STAGES, ReverseImagePolicy, Stage


def is_valid(
    stage: Stage, sha256: Sha256, config: ProcessingConfig, policy: ReverseImagePolicy, products: Products
) -> bool:
    """Return whether the stored product of ``stage`` was made from exactly these inputs."""
    match stage:
        case Stage.VISUAL:
            return VisualStamp(sha256, config.visual.id, config.visual.dimension) in products.visual
        case Stage.AGENT:
            return _context_is_valid(products.context, sha256, config, policy)
        case Stage.TEXT:
            metadata_hash = products.context.metadata_hash if products.context else None
            if metadata_hash is None:
                return False
            return TextStamp(sha256, metadata_hash, config.text.id, config.text.dimension) in products.text
        case _:
            assert_never(stage)


def _context_is_valid(
    context: Context | None, sha256: Sha256, config: ProcessingConfig, policy: ReverseImagePolicy
) -> bool:
    if context is None or context.status not in USABLE or context.provenance is None:
        return False
    if is_described_by_person(context, sha256):
        return True
    made = context.provenance
    return (
        made.image_sha256 == sha256
        and made.schema_version == config.context_schema
        and made.agent_fingerprint == config.agent_fingerprint
        and made.reverse_image_policy == policy
    )


def first_stale_stage(
    sha256: Sha256, config: ProcessingConfig, policy: ReverseImagePolicy, products: Products
) -> Stage | None:
    """Return the first stage, in order, whose product is not valid; None if all three are."""
    for stage in STAGES:
        if not is_valid(stage, sha256, config, policy, products):
            return stage
    return None
