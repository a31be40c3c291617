"""What can honestly be said about a picture from its text and a classifier's tags, without any language model.

Nothing is interpreted: no meaning, no references, no sources. Everything guessed is listed as an uncertainty, and
the context stays `partial`, so that a person or a real agent can complete it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from attrs import frozen

from imgproc_adapters.agent.ocr import TextLine
from imgproc_adapters.agent.words import keywords
from imgproc_adapters.visual.concepts import Tag
from imgproc_domain.context import Description

DESCRIBER_VERSION: Final = "d1"
"""Part of the agent's fingerprint: change it whenever the same evidence gives other words."""

_TITLE_LENGTH: Final = 80
_NEARLY_AS_TALL: Final = 0.8
_DOUBTFUL: Final = 0.9


@frozen
class Evidence:
    """What was read and recognised: `lines` in reading order, `tags` likeliest first."""

    lines: tuple[TextLine, ...]
    tags: tuple[Tag, ...]


def describe(evidence: Evidence) -> Description:
    """The context of a picture; valid, if poor, even when nothing was read and nothing recognised."""
    lines, tags = evidence.lines, evidence.tags
    return Description(
        title=_title(lines, tags),
        summary=_summary(lines, tags),
        subjects=tuple(name for tag in tags for name in (tag.english, tag.chinese)),
        visible_text="\n".join(line.text for line in lines),
        keywords=keywords(line.text for line in lines),
        search_queries=tuple(_queries(lines, tags)),
        uncertainties=tuple(_uncertainties(lines, tags)),
    )


def _title(lines: Sequence[TextLine], tags: Sequence[Tag]) -> str:
    if lines:
        tallest = max(line.height for line in lines)
        best = next(line for line in lines if line.height >= _NEARLY_AS_TALL * tallest)
        return _shortened(best.text)
    if tags:
        return f"Picture of {tags[0].english} / {tags[0].chinese}"
    return "Picture without text"


def _shortened(text: str) -> str:
    return text if len(text) <= _TITLE_LENGTH else text[: _TITLE_LENGTH - 1].rstrip() + "…"


def _summary(lines: Sequence[TextLine], tags: Sequence[Tag]) -> str:
    # the text itself is not repeated: as part of what is embedded it would drown what the picture shows
    if tags:
        english = ", ".join(tag.english for tag in tags)
        return f"Likely shows {english}. 可能是{'、'.join(tag.chinese for tag in tags)}。"
    return "Picture with text." if lines else "No text and no known subject was recognised."


def _queries(lines: Sequence[TextLine], tags: Sequence[Tag]) -> Iterable[str]:
    if lines:
        yield _title(lines, tags)
    for tag in tags:
        yield f"picture of {tag.english}"
        yield f"{tag.chinese}图片"


def _uncertainties(lines: Sequence[TextLine], tags: Sequence[Tag]) -> Iterable[str]:
    yield "described without interpretation: meaning and references are unknown"
    if lines:
        letters = sum(len(line.text) for line in lines)
        mean = sum(line.confidence * len(line.text) for line in lines) / letters
        yield f"text read by OCR with confidence {mean:.2f}"
    for line in lines:
        if line.confidence < _DOUBTFUL:
            yield f'"{_shortened(line.text)}" was read with confidence {line.confidence:.2f}'
    for tag in tags:
        yield f'subject "{tag.english}" comes from an image classifier ({tag.confidence:.2f})'
