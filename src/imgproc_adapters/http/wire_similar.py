"""What travels of pictures that look alike: the classes of its JSON bodies."""

from typing import Annotated, Literal
from uuid import UUID

from attrs import frozen
from litestar.params import Parameter

KindName = Literal["exact", "near", "similar"]


@frozen(kw_only=True)
class NearDuplicate:
    """A picture that was there before: the same bytes (``exact``), or by all appearances an edited copy (``near``)."""

    meme_id: UUID
    kind: KindName
    score: float
    media_url: str


@frozen
class SimilarRequest:
    """Ask by a picture of the library. ``n_results`` is 1 to 100, ``min_score`` -1 to 1."""

    meme_id: str
    n_results: Annotated[int, Parameter(ge=1, le=100)] = 10
    min_score: Annotated[float, Parameter(ge=-1, le=1)] | None = None


@frozen(kw_only=True)
class SimilarResult:
    """``score`` is the cosine similarity of what the pictures look like, from -1 to 1; 1 for the same bytes."""

    meme_id: UUID
    media_url: str
    thumbnail_url: str
    filename: str
    title: str | None = None
    score: float
    kind: KindName


@frozen
class SimilarAnswer:
    """Most alike first."""

    results: list[SimilarResult]
