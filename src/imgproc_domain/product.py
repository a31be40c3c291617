"""What a stage makes, stamped with the inputs it consumed."""

from attrs import frozen

from imgproc_domain.context import Context, ContextStatus, Description, Provenance
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.vector import Vector


@frozen
class VisualProduct:
    meme_id: MemeId
    image_sha256: Sha256
    space_id: str
    vector: Vector


@frozen
class ContextProduct:
    """An agent's description."""

    meme_id: MemeId
    image_sha256: Sha256
    description: Description
    status: ContextStatus
    provenance: Provenance


@frozen
class TextProduct:
    meme_id: MemeId
    image_sha256: Sha256
    metadata_hash: Sha256
    space_id: str
    vector: Vector


Product = VisualProduct | ContextProduct | TextProduct


@frozen(slots=False)
class VisualStamp:
    """The key of a stored visual vector."""

    image_sha256: Sha256
    space_id: str
    dimension: int


@frozen(slots=False)
class TextStamp:
    """The key of a stored text vector."""

    image_sha256: Sha256
    metadata_hash: Sha256
    space_id: str
    dimension: int


@frozen(slots=False)
class Products:
    """What is stored for one meme: every stamp, and the current context."""

    visual: frozenset[VisualStamp] = frozenset()
    context: Context | None = None
    text: frozenset[TextStamp] = frozenset()
