"""Text from outside made safe to store, log and show."""

import unicodedata
from typing import Final

_KEEP: Final = frozenset("\n\t")


def clean(raw: str, limit: int) -> str:
    """Return ``raw`` in NFC without control characters, NULs and lone surrogates, at most ``limit`` characters.

    Newline and tab stay. Anything cut is marked by an ellipsis as the last character.
    """
    normal = unicodedata.normalize("NFC", raw[: limit * 4 + 16].replace("\r\n", "\n"))
    kept = "".join(c for c in normal if c in _KEEP or unicodedata.category(c) not in ("Cc", "Cs", "Cn"))
    kept = kept.strip()
    return kept if len(kept) <= limit else kept[: limit - 1].rstrip() + "…"
