"""Keywords from a line of text in any mixture of Chinese and languages that put spaces between words."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_CJK: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_RUN: Final = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’\-][^\W_{_CJK}]+)*")
_CHINESE: Final = re.compile(rf"[{_CJK}]")
# Chinese puts no spaces between words. A few function words are frequent and rarely part of another word, and what
# stands between two of them is nearly always a word or a set phrase: enough for keywords, without a dictionary.
_PARTICLES: Final = re.compile(
    "因为|所以|但是|可是|如果|就是|不是|还是|什么|怎么|这个|那个|我们|你们|他们|已经|自己|[的了是我你他她它就都也吗呢吧啊呀]"
)
_SHORTEST_WORD, _LONGEST_PHRASE = 3, 8
_COMMON_WORDS: Final = frozenset(
    re.findall(
        r"[a-z']+",
        """
        the and for are but not you your yours all any can had her his him its our out was has have how man who did
        this that with from they them then than there their what when where which will would could should been being
        were into just only very also too over under about after before because while more most some such i'm it's
        don't can't won't didn't doesn't isn't i've i'll you're that's let's
        """,
    )
)


def keywords(lines: Iterable[str], limit: int = 24) -> tuple[str, ...]:
    """Distinct words in order of appearance: lower-case words of three letters and more, Chinese phrases of 2-8."""
    seen: dict[str, None] = {}
    for line in lines:
        for word in _words(line):
            seen.setdefault(word)
    return tuple(seen)[:limit]


def _words(line: str) -> Iterator[str]:
    for run in _RUN.findall(line):
        if _CHINESE.match(run):
            phrases = (phrase for phrase in _PARTICLES.split(run) if phrase)
            yield from (phrase for phrase in phrases if 1 < len(phrase) <= _LONGEST_PHRASE)
        else:
            word = run.lower().replace("’", "'")
            if len(word) >= _SHORTEST_WORD and word not in _COMMON_WORDS and not word.isdigit():
                yield word
