"""Text from outside made safe to store, log and show."""

import re
import unicodedata
from typing import Final

_LINE_BREAKS: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_KEEP: Final = frozenset("\n\t")
_DROPPED: Final = frozenset({"Cc", "Cs"})


def clean(raw: str, limit: int) -> str:
    """Return ``raw`` in NFC without control characters, NULs and lone surrogates, at most ``limit`` characters.

    Newline and tab stay; every other line break becomes a newline. Anything cut is marked by an ellipsis as the last
    character. Cleaning what was cleaned changes nothing.
    """
    if len(raw) <= limit and raw.isprintable() and unicodedata.is_normalized("NFC", raw):
        return raw.strip()
    head, rest = raw[: limit * 4 + 16], raw[limit * 4 + 16 :]
    broken = _LINE_BREAKS.sub("\n", head)
    kept = "".join(c for c in broken if c in _KEEP or not _is_dropped(c))
    text = unicodedata.normalize("NFC", kept).strip()
    if len(text) <= limit and not rest.strip():
        return text
    return text[: limit - 1].rstrip() + "…"


def _is_dropped(character: str) -> bool:
    """Controls, surrogates and noncharacters; unassigned code points stay, since the next Unicode may assign them."""
    point = ord(character)
    noncharacter = point & 0xFFFE == 0xFFFE or 0xFDD0 <= point <= 0xFDEF  # noqa: PLR2004 - Unicode's own numbers
    return noncharacter or unicodedata.category(character) in _DROPPED
