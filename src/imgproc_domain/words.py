"""The words by which a picture can be found, and a query's: whole words, and pairs of characters in Chinese.

Scripts that are written without spaces between words (Chinese, Japanese, Korean, Thai and their neighbours) are cut
into pairs of neighbouring characters, so that every part of a phrase that is two characters long or longer finds it
without a dictionary. What is a letter or a digit makes words; every other character, `%`, `_` and quotes included, only
ends one.
"""

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from itertools import chain, islice
from operator import add
from typing import Final

from attrs import Factory, frozen

from imgproc_domain.context import Description

WORDS_LIMIT: Final = 1_000
"""At most so many words of a meme are kept: those of title, keywords and file name before those in the picture."""

QUERY_WORDS_LIMIT: Final = 32
"""So many words of a query are looked up; the words behind them are left to their meaning."""

WORD_LIMIT: Final = 64
"""Characters of a word; a longer one is known by its beginning."""


class Field(StrEnum):
    """Where the words of a meme come from."""

    TITLE = "title"
    VISIBLE_TEXT = "visible_text"
    KEYWORDS = "keywords"
    FILE_NAME = "file_name"


WEIGHTS: Final[Mapping[Field, float]] = {
    Field.TITLE: 1.0,
    Field.VISIBLE_TEXT: 0.98,
    Field.KEYWORDS: 0.96,
    Field.FILE_NAME: 0.94,
}
"""What a word counts for, by the best field it is in. They differ little: having all words goes before having them in
a better place."""

LEAST_SHARE: Final = 0.4
"""A meme that has a smaller share of a query's words does not match by words."""

SHARE_DIGITS: Final = 4
"""Decimals of a share: what differs by less is equal, and something else decides the order."""

# NFKC has brought half and full widths, and the letters of Hangul, to these.
_UNSPACED: Final = (
    "\u3005-\u3007\u3031-\u3035\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1050-\u109d\u1780-\u17d3"
)
_MARKS_FROM, _MARKS_TO = 0x300, 0x1E00


def _marks() -> str:
    """Return the marks that belong to the letter before them, where NFKC has no letter that already has them."""
    unspaced = re.compile(f"[{_UNSPACED}]")
    points = map(chr, range(_MARKS_FROM, _MARKS_TO))
    return "".join(c for c in points if unicodedata.category(c)[0] == "M" and not unspaced.match(c))


_RUN: Final = re.compile(f"[{_UNSPACED}]+")
_WORD: Final = re.compile(f"\\w[\\w{_marks()}]*")
_ASCII_WORD: Final = re.compile("[a-z0-9]+")

_SMALL: Final = re.compile(
    "a|an|and|are|as|at|be|but|by|do|does|for|from|has|have|he|her|his|how|i|if|in|is|it|its|me|my|no|not|of|on|or|our"
    "|she|so|that|the|their|them|they|this|to|was|we|were|what|when|where|which|who|why|will|with|you|your"
)
"""English words that are in most texts: a query that has others is not about them."""


@frozen
class Words:
    """The words of one meme by the best field each is in. No word is in two fields."""

    by_field: Mapping[Field, frozenset[str]]

    def __len__(self) -> int:
        return sum(map(len, self.by_field.values()))


@frozen
class QueryWords:
    """A query's words, each once.

    ``terms`` is how they stood in the query, by the number of words each is cut into: a word is itself, an unbroken
    run of characters its pairs.
    """

    words: tuple[str, ...] = ()
    terms: Mapping[str, int] = Factory(dict)

    def __bool__(self) -> bool:
        return bool(self.words)


def words_of(description: Description, filename: str) -> Words:
    """Return the words by which a meme of this context and file name is found."""
    texts = _folded(description, filename)
    title, visible, keywords, name = found = [_words(text) for text in texts]
    in_title = frozenset(title)
    in_picture = frozenset(visible) - in_title
    in_keywords = frozenset(keywords) - in_title - in_picture
    in_name = frozenset(name) - in_title - in_picture - in_keywords
    words = Words(dict(zip(Field, (in_title, in_picture, in_keywords, in_name), strict=True)))
    if sum(map(len, found)) <= WORDS_LIMIT or len(words) <= WORDS_LIMIT:
        return words
    kept = frozenset(islice(dict.fromkeys(chain(title, keywords, name, visible)), WORDS_LIMIT))
    return Words({field: some & kept for field, some in words.by_field.items()})


def query_words(text: str) -> QueryWords:
    """Return what to look up for a query; nothing where it has neither a letter nor a digit."""
    found = _terms(_fold(text))
    telling = [term for term in found if not _SMALL.fullmatch(term)]
    terms: dict[str, int] = {}
    words: dict[str, None] = {}
    room = QUERY_WORDS_LIMIT
    for term in telling or found:
        is_run = _RUN.match(term) is not None
        # a phrase is cut where the limit is
        kept = term[: room + 1] if is_run else term[:WORD_LIMIT]
        cut = _pairs(kept) if is_run else [kept]
        terms[kept] = len(cut)
        words.update(dict.fromkeys(cut))
        room -= len(cut)
        if room <= 0:
            break
    return QueryWords(tuple(words), terms)


def matched_fields(query: QueryWords, description: Description, filename: str) -> tuple[Field, ...]:
    """Return the fields that have words of a query: `LEAST_SHARE` of them, where it has a phrase as it stands there.

    Pairs of characters that are in a text, but not side by side as in the query, are no part of its phrase.
    """
    texts = zip(Field, _folded(description, filename), strict=True)
    return tuple(field for field, text in texts if _has(query, text))


def _folded(description: Description, filename: str) -> list[str]:
    """Return the texts of a meme, folded, in the order of their fields."""
    texts = (description.title, description.visible_text, "\n".join(description.keywords), filename)
    return [_fold(text) for text in texts]


def _fold(text: str) -> str:
    """Return a text in which letters that differ by width, case or style alone are the same."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _terms(folded: str) -> list[str]:
    """Return words and unbroken runs, in the order they stand in."""
    terms: list[str] = []
    end = 0
    for run in _RUN.finditer(folded):
        terms += _spaced(folded[end : run.start()])
        terms.append(run[0])
        end = run.end()
    return terms + _spaced(folded[end:])


def _words(folded: str) -> list[str]:
    runs = [] if folded.isascii() else _RUN.findall(folded)
    words = _spaced(_RUN.sub(" ", folded) if runs else folded)
    for run in runs:
        words += _pairs(run)
    return words


def _spaced(rest: str) -> list[str]:
    """Return the words of a text without unbroken runs."""
    found = _ASCII_WORD.findall(rest) if rest.isascii() else _WORD.findall(rest.replace("_", " "))
    return [word[:WORD_LIMIT] for word in found]


def _pairs(run: str) -> list[str]:
    return list(map(add, run, run[1:])) or [run]


def _has(query: QueryWords, folded: str) -> bool:
    runs = _RUN.findall(folded)
    words = set(_spaced(_RUN.sub(" ", folded) if runs else folded))
    text = "\n".join(runs)
    found = sum(size if term in words else _side_by_side(term, text) for term, size in query.terms.items())
    return found > 0 and found >= LEAST_SHARE * sum(query.terms.values())


def _side_by_side(run: str, text: str) -> int:
    """Return how many pairs the longest part of a run has that stands in a text."""
    longest = 0
    for end in range(1, len(run) + 1):
        # from one end to the next, the longest part that ends there grows by one at most
        if run[end - longest - 1 : end] in text:
            longest += 1
    return longest - 1 if len(run) > 1 and longest > 0 else longest
