"""Whether a meme can be found by meaning right now, and if not, why."""

from enum import StrEnum

from imgproc_domain.config import VectorSpace
from imgproc_domain.context import USABLE, ContextStatus
from imgproc_domain.meme import Meme
from imgproc_domain.product import Products, TextStamp


class Reason(StrEnum):
    """Why a meme is not searchable; shown to people."""

    DELETED = "deleted"
    CONTEXT_PENDING = "context_pending"
    CONTEXT_REPAIR_REQUIRED = "context_repair_required"
    NO_EMBEDDABLE_TEXT = "no_embeddable_text"
    VECTOR_MISSING = "vector_missing"
    VECTOR_STALE = "vector_stale"


def why_not_searchable(meme: Meme, products: Products, space: VectorSpace) -> Reason | None:
    """Return None exactly while invariant I14 holds for one of the meme's text vectors."""
    context = products.context
    if not meme.exists:
        return Reason.DELETED
    if context is None or context.status is ContextStatus.PENDING:
        return Reason.CONTEXT_PENDING
    if context.status not in USABLE:
        return Reason.CONTEXT_REPAIR_REQUIRED
    metadata_hash = context.metadata_hash
    if metadata_hash is None:
        return Reason.NO_EMBEDDABLE_TEXT
    if TextStamp(meme.picture.sha256, metadata_hash, space.id, space.dimension) in products.text:
        return None
    return Reason.VECTOR_STALE if products.text else Reason.VECTOR_MISSING
