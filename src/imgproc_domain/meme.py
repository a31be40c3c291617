"""One picture of a scope: immutable id, mutable bytes."""

from datetime import datetime

from attrs import field, frozen

from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.scope import Scope
from imgproc_domain.text import clean

FILENAME_LIMIT = 255


def parse_filename(raw: str | None) -> str:
    """Return the last path component of a client's file name, cleaned and bounded; ``picture`` if nothing is left."""
    last = (raw or "").replace("\\", "/").rsplit("/", 1)[-1]
    return clean(last, FILENAME_LIMIT).replace("\n", " ").replace("\t", " ") or "picture"


@frozen(slots=False)
class Picture:
    """The bytes of one version of a meme, as the decoder saw them.

    ``width`` and ``height`` are pixels after EXIF orientation; ``frames`` is 1 for still pictures; ``storage_key``
    is made by the server and names the bytes in the blob store.
    """

    sha256: Sha256
    media_type: str
    byte_size: int
    width: int
    height: int
    frames: int
    storage_key: str


@frozen(slots=False)
class Meme:
    scope: Scope
    meme_id: MemeId
    filename: str = field(converter=parse_filename)
    picture: Picture
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None

    @property
    def exists(self) -> bool:
        return self.deleted_at is None
