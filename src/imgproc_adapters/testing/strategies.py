"""Hypothesis strategies for values that come from outside."""

from hypothesis import strategies as st

from imgproc_domain.context import Description, Reference
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import Sha256
from imgproc_domain.scope import Scope
from imgproc_domain.vector import Vector

_HEX = "0123456789abcdef"

texts = st.text(max_size=60)
"""Any text at all: other scripts, controls, NULs and lone surrogates included."""

scopes = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}", fullmatch=True).map(Scope)
digests = st.text(_HEX, min_size=64, max_size=64).map(Sha256.parse)
references = st.builds(Reference, name=texts, confirmed=st.booleans(), url=st.none() | st.just("https://example.org/"))
diagnoses = st.builds(Diagnosis, st.sampled_from(ErrorCode), texts)

descriptions = st.builds(
    Description,
    title=texts,
    summary=texts,
    subjects=st.lists(texts, max_size=4),
    visible_text=texts,
    references=st.lists(references, max_size=3),
    meaning=st.none() | texts,
    keywords=st.lists(texts, max_size=4),
    search_queries=st.lists(texts, max_size=2),
    uncertainties=st.lists(texts, max_size=2),
    source_urls=st.lists(texts, max_size=2),
)


def vectors(dimension: int) -> st.SearchStrategy[Vector]:
    """Return unit vectors of this dimension, from components that are not all nearly 0."""
    component = st.floats(-1.0, 1.0, width=32)
    rows = st.lists(component, min_size=dimension, max_size=dimension)
    return rows.filter(lambda row: max(map(abs, row)) > 1e-3).map(Vector.unit)  # noqa: PLR2004 - far from underflow
