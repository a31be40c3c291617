"""Examples of pictures that look alike, for the OpenAPI document."""

from typing import Final
from uuid import UUID

from imgproc_adapters.http.wire_similar import NearDuplicate, SimilarAnswer, SimilarRequest, SimilarResult

_MEME: Final = UUID("01981f4e-7c00-7abc-8def-0123456789ab")
_OTHER: Final = UUID("01981f4e-7c09-7abc-8def-0123456789ab")

SIMILAR_REQUEST: Final = SimilarRequest(str(_MEME), n_results=3)
SIMILAR: Final = SimilarAnswer(
    [
        SimilarResult(
            meme_id=_OTHER,
            media_url=f"/media/{_OTHER}",
            thumbnail_url=f"/media/{_OTHER}/thumbnail",
            filename="cat-cropped.webp",
            title="A cat at a keyboard",
            score=0.96,
            kind="near",
        )
    ]
)
NEAR: Final = NearDuplicate(meme_id=_OTHER, kind="near", score=0.96, media_url=f"/media/{_OTHER}")
