"""From pictures that look alike to the wire."""

from collections.abc import Mapping, Sequence

from imgproc_adapters.http.convert import Links
from imgproc_adapters.http.wire_similar import NearDuplicate, SimilarAnswer, SimilarResult
from imgproc_domain.ids import MemeId
from imgproc_domain.similar import Match
from imgproc_domain.usecases.views import ImageView


def similar_answer(found: Sequence[Match], pictures: Mapping[MemeId, ImageView], links: Links) -> SimilarAnswer:
    """A picture that was deleted since it was found is no result any more."""
    return SimilarAnswer(
        [_result(match, pictures[match.meme_id], links) for match in found if match.meme_id in pictures]
    )


def _result(match: Match, view: ImageView, links: Links) -> SimilarResult:
    context = view.products.context
    return SimilarResult(
        meme_id=match.meme_id,
        media_url=links.original(match.meme_id),
        thumbnail_url=links.thumbnail(match.meme_id),
        filename=view.meme.filename,
        title=(context.description.title or None) if context else None,
        score=match.score,
        kind=match.kind.value,
    )


def near_duplicate(match: Match, links: Links) -> NearDuplicate:
    return NearDuplicate(
        meme_id=match.meme_id,
        kind=match.kind.value,
        score=match.score,
        media_url=links.original(match.meme_id),
    )
