"""What a picture means, in words: the context, its provenance, and the part of it that is embedded."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

from attrs import field, frozen

from imgproc_domain.ids import AttemptId, MemeId, Sha256
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.text import clean

SCHEMA_VERSION: Final = "context-1"

TITLE_LIMIT: Final = 200
PROSE_LIMIT: Final = 4_000
VISIBLE_TEXT_LIMIT: Final = 8_000
LIST_LIMIT: Final = 32
ITEM_LIMIT: Final = 200
URL_LIMIT: Final = 2_000


class ContextStatus(StrEnum):
    PENDING = "pending"
    PARTIAL = "partial"
    READY = "ready"
    REPAIR_REQUIRED = "repair_required"


USABLE: Final = frozenset({ContextStatus.PARTIAL, ContextStatus.READY})
"""The statuses in which a context may be embedded and found."""


class Origin(StrEnum):
    AGENT = "agent"
    PERSON = "person"


def _title(raw: str) -> str:
    return clean(raw, TITLE_LIMIT)


def _item(raw: str) -> str:
    return clean(raw, ITEM_LIMIT)


def _prose(raw: str) -> str:
    return clean(raw, PROSE_LIMIT)


def _optional_prose(raw: str | None) -> str | None:
    return (_prose(raw) or None) if raw else None


def _optional_url(raw: str | None) -> str | None:
    return (clean(raw, URL_LIMIT) or None) if raw else None


def _visible_text(raw: str) -> str:
    return clean(raw, VISIBLE_TEXT_LIMIT)


def _items(raw: Iterable[str]) -> tuple[str, ...]:
    cleaned = (_item(item) for item in raw)
    return tuple(dict.fromkeys(item for item in cleaned if item))[:LIST_LIMIT]


@frozen
class Reference:
    """Something the picture alludes to. Only confirmed references are embedded."""

    name: str = field(converter=_item)
    confirmed: bool = False
    url: str | None = field(default=None, converter=_optional_url)


def _references(raw: Iterable[Reference]) -> tuple[Reference, ...]:
    return tuple(raw)[:LIST_LIMIT]


@frozen(slots=False)
class Description:
    """The structured description of a meme. Every text is cleaned and bounded on construction."""

    title: str = field(default="", converter=_title)
    summary: str = field(default="", converter=_prose)
    subjects: tuple[str, ...] = field(default=(), converter=_items)
    visible_text: str = field(default="", converter=_visible_text)
    references: tuple[Reference, ...] = field(default=(), converter=_references)
    meaning: str | None = field(default=None, converter=_optional_prose)
    keywords: tuple[str, ...] = field(default=(), converter=_items)
    search_queries: tuple[str, ...] = field(default=(), converter=_items)
    uncertainties: tuple[str, ...] = field(default=(), converter=_items)
    source_urls: tuple[str, ...] = field(default=(), converter=_items)

    def embeddable_text(self) -> str:
        """Return the canonical text of the whitelisted fields, one field a line; empty if there is none.

        `search_queries`, `uncertainties`, `source_urls`, unconfirmed references and the file name never enter it.
        """
        confirmed = (reference.name for reference in self.references if reference.confirmed and reference.name)
        lines = (
            self.title,
            self.summary,
            ", ".join(self.subjects),
            self.visible_text,
            ", ".join(confirmed),
            self.meaning or "",
            ", ".join(self.keywords),
        )
        return "\n".join(line for line in lines if line)

    def metadata_hash(self) -> Sha256 | None:
        """Return the hash of the embeddable text, or None if there is nothing to embed."""
        return self._metadata_hash

    @cached_property
    def _metadata_hash(self) -> Sha256 | None:
        text = self.embeddable_text()
        return Sha256.of(SCHEMA_VERSION, text) if text else None


@frozen
class Usage:
    """What one agent call consumed, as the provider reported it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    turns: int | None = None


@frozen
class Provenance:
    """Which inputs a context was made from: what decides whether it is still valid."""

    origin: Origin
    image_sha256: Sha256
    schema_version: str = SCHEMA_VERSION
    agent_fingerprint: str | None = None
    reverse_image_policy: ReverseImagePolicy | None = None
    attempt_id: AttemptId | None = None
    usage: Usage | None = None


@frozen(slots=False)
class Context:
    """The current context of a meme. ``revision`` rises with every write and guards edits against lost updates."""

    scope: Scope
    meme_id: MemeId
    status: ContextStatus
    revision: int
    description: Description
    provenance: Provenance | None
    updated_at: datetime

    @property
    def metadata_hash(self) -> Sha256 | None:
        return self.description.metadata_hash()


def is_described_by_person(context: Context | None, sha256: Sha256) -> bool:
    """Whether a person wrote the usable context of exactly this picture: such words are never overwritten."""
    if context is None or context.provenance is None or context.status not in USABLE:
        return False
    return context.provenance.origin is Origin.PERSON and context.provenance.image_sha256 == sha256
