"""Every part of a text that a person may remember of it finds it, and nothing in a query means more than itself."""

import re
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from imgproc_domain.context import Description
from imgproc_domain.words import (
    LEAST_SHARE,
    QUERY_WORDS_LIMIT,
    WEIGHTS,
    WORD_LIMIT,
    WORDS_LIMIT,
    Field,
    QueryWords,
    Words,
    matched_fields,
    query_words,
    words_of,
)

CAT = Description(
    title="一只惊讶的猫 at a Keyboard",
    visible_text="WHAT IS GOING ON 100%\n我太难了",
    keywords=["猫", "surprised_cat", "Ｋｅｙｓ"],
)

CHINESE = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=2, max_size=40)
MIXED = st.text(
    st.sampled_from("惊讶的猫ねこカタ고양이แมว abcXYZ019éßİ%_'\\\"&|!:*()。、？！\n\t＿％ａ①") | st.characters(),
    max_size=120,
)


def every(words: Words) -> set[str]:
    return {word for some in words.by_field.values() for word in some}


def titled(title: str) -> set[str]:
    return every(words_of(Description(title=title), ""))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A cat's keyboard", {"a", "cat", "s", "keyboard"}),
        ("surprised_cat-2024.JPG", {"surprised", "cat", "2024", "jpg"}),
        ("一只惊讶的猫", {"一只", "只惊", "惊讶", "讶的", "的猫"}),
        ("猫", {"猫"}),
        ("猫 cat狗", {"猫", "cat", "狗"}),
        ("我太。难了", {"我太", "难了"}),
        ("ねこカフェー", {"ねこ", "こカ", "カフ", "フェ", "ェー"}),
        ("ﾈｺﾊﾞﾝ", {"ネコ", "コバ", "バン"}),
        ("고양이", {"고양", "양이"}),
        ("แมว", {"แม", "มว"}),
        ("人々の〇", {"人々", "々の", "の〇"}),
        ("Ｆｕｌｌ Ｗｉｄｔｈ ①", {"full", "width", "1"}),
        ("STRASSE straße İstanbul", {"strasse", "i\u0307stanbul"}),
        ("naïve nai\u0308ve हिन्दी", {"naïve", "हिन्दी"}),
        ("𠀀𠀁", {"𠀀𠀁"}),
        ("3.14 10,000", {"3", "14", "10", "000"}),
        ("😂 ... ?! %_", set()),
    ],
)
def test_a_text_has_these_words(text: str, words: set[str]) -> None:
    assert titled(text) == words
    assert set(query_words(text).words) <= words


def test_a_word_is_kept_once_with_the_best_field_it_is_in() -> None:
    words = words_of(Description(title="cat", visible_text="cat dog", keywords=["dog owl"]), "cat owl bee")
    assert words.by_field == {
        Field.TITLE: {"cat"},
        Field.VISIBLE_TEXT: {"dog"},
        Field.KEYWORDS: {"owl"},
        Field.FILE_NAME: {"bee"},
    }
    assert len(words) == 4


def test_better_fields_count_for_more_but_never_make_up_for_a_missing_word() -> None:
    weights = [WEIGHTS[field] for field in Field]
    assert weights == sorted(set(weights), reverse=True)
    # in the smallest queries: two words in the worst place are more than one in the best
    assert weights[0] == 1.0
    assert min(weights) > 0.5
    assert min(weights) > LEAST_SHARE


def test_what_is_neither_embedded_nor_seen_has_no_words() -> None:
    hidden = Description(summary="summary", meaning="meaning", search_queries=["queries"], subjects=["subjects"])
    assert every(words_of(hidden, "")) == set()


def test_a_description_has_at_most_so_many_words_and_loses_those_in_the_picture_first() -> None:
    many = " ".join(f"word{number}" for number in range(WORDS_LIMIT))
    words = words_of(Description(title="first", visible_text=many, keywords=["second"]), "third")
    assert len(words) == WORDS_LIMIT
    assert {"first", "second", "third", "word0"} <= every(words)
    assert "word999" not in every(words)


def test_a_word_is_known_by_its_beginning() -> None:
    long = "x" * (WORD_LIMIT + 10)
    assert titled(long) == set(query_words(long).words) == {"x" * WORD_LIMIT}


def test_the_words_of_a_query_are_so_many_and_its_phrases_end_there() -> None:
    words = query_words(" ".join(f"word{number}" for number in range(QUERY_WORDS_LIMIT + 5)))
    assert len(words.words) == len(words.terms) == QUERY_WORDS_LIMIT
    run = "".join(chr(0x4E00 + number) for number in range(QUERY_WORDS_LIMIT + 5))
    cut = query_words(f"cat {run} dog")
    assert len(cut.words) == QUERY_WORDS_LIMIT
    assert cut.terms == {"cat": 1, run[:QUERY_WORDS_LIMIT]: QUERY_WORDS_LIMIT - 1}


def test_small_english_words_are_asked_for_only_where_there_are_no_others() -> None:
    assert query_words("what is the cat on").words == ("cat",)
    assert query_words("To be, or not to be").words == ("to", "be", "or", "not")
    assert query_words("It 是 a 猫") == QueryWords(("是", "猫"), {"是": 1, "猫": 1})


def test_a_query_without_letters_and_digits_has_no_words() -> None:
    for text in ("%", "_", "' \\ \" & | ! : * ( ) < - >", "😂", "。、", "\ud800"):
        assert not query_words(text)


@pytest.mark.parametrize("operator", list("%_'\\&|!:*()<>-\"\n"))
def test_no_character_is_an_operator(operator: str) -> None:
    assert query_words(f"cat{operator}dog") == query_words("cat dog")
    assert query_words(f"{operator}cat{operator}") == query_words("cat")
    assert titled(f"cat{operator}dog") == {"cat", "dog"}


@given(CHINESE, st.data())
def test_every_part_of_a_chinese_title_finds_it(title: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(title) - 2))
    part = title[begin : data.draw(st.integers(begin + 2, len(title)))]
    assert set(query_words(part).words) <= titled(title)
    assert matched_fields(query_words(part), Description(title=title), "") == (Field.TITLE,)


@given(MIXED, st.data())
def test_every_word_and_every_unbroken_run_of_a_text_finds_it(text: str, data: st.DataObject) -> None:
    described = Description(title=text)
    # a letter without the mark behind it is another word, and some characters are newer than this Python
    kinds = {unicodedata.category(character) for character in unicodedata.normalize("NFKC", described.title)}
    assume(kinds.isdisjoint({"Mn", "Mc", "Me", "Cn"}))
    parts = re.findall(r"[^\W_]+", described.title)
    assume(parts)
    part = data.draw(st.sampled_from(parts))
    found = query_words(part)
    assert set(found.words) <= titled(text)
    assert not found or Field.TITLE in matched_fields(found, described, "")


@given(MIXED, MIXED)
def test_odd_texts_are_words_of_letters_and_digits_or_nothing(text: str, name: str) -> None:
    found = every(words_of(Description(title=text, visible_text=text, keywords=[text]), name)) | set(
        query_words(text).words
    )
    for word in found:
        assert 0 < len(word) <= WORD_LIMIT
        # a character that this Python does not know yet is a letter by where it stands
        assert all(unicodedata.category(c)[0] in "LNM" or unicodedata.category(c) == "Cn" for c in word)


@given(MIXED)
def test_a_text_finds_itself(text: str) -> None:
    described = Description(title=text)
    asked = query_words(described.title)
    assert set(asked.words) <= titled(text)
    if asked:
        assert matched_fields(asked, described, "") == (Field.TITLE,)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("惊讶的猫", {Field.TITLE}),
        ("猫", {Field.TITLE, Field.KEYWORDS}),
        ("what's going on", {Field.VISIBLE_TEXT}),
        ("KEYS", {Field.KEYWORDS}),
        ("surprised", {Field.KEYWORDS, Field.FILE_NAME}),
        ("keyboard 我太难了", {Field.VISIBLE_TEXT}),
        ("太难了我", {Field.VISIBLE_TEXT}),
        ("只太猫惊", set()),
        ("dog", set()),
        ("surprise", set()),
        ("讶 keyboard horse cow", {Field.TITLE}),
        ("keyboard horse cow duck", set()),
    ],
)
def test_a_field_is_matched_by_what_stands_in_it_side_by_side(query: str, fields: set[Field]) -> None:
    assert set(matched_fields(query_words(query), CAT, "surprised.png")) == fields


def test_pairs_that_do_not_stand_side_by_side_are_no_phrase() -> None:
    scattered = Description(title="甲乙 乙丙 丙丁 丁戊")
    asked = query_words("甲乙丙丁戊")
    assert set(asked.words) <= every(words_of(scattered, ""))
    assert matched_fields(asked, scattered, "") == ()
