"""Find pictures by what they mean, and by their words."""

from collections.abc import Sequence
from functools import partial

from attrs import evolve, frozen

from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import CacheNotReady, Conflict, ModelNotConfigured
from imgproc_domain.migration import SearchState
from imgproc_domain.ports.search import Readable
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.search import HEAD, Answer, Hit, Query, Ranking, Source, WordMatch, page, wanted
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.legacy import Files, Unseen, legacy_coverage, legacy_hits
from imgproc_domain.vector import Vector
from imgproc_domain.words import QueryWords, matched_fields, query_words


@frozen
class Reading:
    """What a scope's searches read: a space, of the incremental vectors or of a generation."""

    state: SearchState
    space: VectorSpace
    generation: Readable | None = None


@frozen
class Asked:
    """A query, embedded for the space that is expected to be read."""

    query: Query
    words: QueryWords
    space: VectorSpace
    vector: Vector
    files: Files


async def search(deployment: Deployment, scope: Scope, query: Query) -> Answer:
    """Answer a query from one source and one space, as everything was at one moment.

    The transaction that answers reads the scope's state first, and all the rest as it is at that moment: so no answer
    is of two states, and nothing is locked for it (I15). If that is another space than the query was embedded for,
    everything is decided again.

    Raises:
        CacheNotReady: no picture of the scope can be found yet, or the space that is read changed again and again.
        ModelNotConfigured: the text model that the scope is searched with is missing here.
        ModelDeclined, ModelUnavailable, ModelTimeout: it has no vector for this query, as `Questions.ask` says.
    """
    words = query_words(query.text) if query.ranking is Ranking.HYBRID else QueryWords()
    files = Files(deployment.blobs, scope)
    vectors: dict[VectorSpace, Vector] = {}
    expected = await _expected(deployment, scope)

    async def once() -> Answer:
        nonlocal expected
        if expected not in vectors:
            vectors[expected] = await _embedded(deployment, expected, query)
        asked = Asked(query, words, expected, vectors[expected], files)
        while True:
            async with deployment.uow.begin(scope) as tx:
                reading = await _reading(tx, deployment)
                expected = reading.space
                found = await _found(tx, reading, asked)
            if not isinstance(found, Unseen):
                return _if_any(found)
            await files.look(found.keys)

    try:
        return await decided_again(once)
    except Conflict as changed:
        raise CacheNotReady(f"{changed.message}: ask again") from changed


def _if_any(answer: Answer) -> Answer:
    if answer.coverage.searchable == 0:
        raise CacheNotReady("no picture of this library can be found yet", total=answer.coverage.total)
    return answer


async def _expected(deployment: Deployment, scope: Scope) -> VectorSpace:
    """Return the space that will probably be read; a process with one model need not ask before it embeds."""
    if not deployment.more_text:
        return deployment.text.space
    async with deployment.uow.begin(scope) as tx:
        return (await _reading(tx, deployment)).space


async def _reading(tx: Transaction, deployment: Deployment) -> Reading:
    state = await tx.search.begin_reading()
    if state.source is Source.INCREMENTAL:
        return Reading(state, deployment.serving(state))
    generation = await tx.generations.readable()
    if generation is None:
        raise CacheNotReady("this library has no index yet", total=await tx.memes.count())
    return Reading(state, generation.space, generation)


async def _embedded(deployment: Deployment, space: VectorSpace, query: Query) -> Vector:
    model = deployment.text_model(space)
    if model is None:
        message = f"this library is searched with {space.id}, a text model that is not configured here"
        raise ModelNotConfigured(message, space_id=space.id)
    asked = partial(model.embed_query, query.text)
    return await deployment.questions.ask(model, asked, deployment.limits.answer_within)


async def _found(tx: Transaction, reading: Reading, asked: Asked) -> Answer | Unseen:
    if asked.space != reading.space:
        raise Conflict("searches read another space meanwhile")
    if reading.generation is not None:
        return await _found_in(tx, reading, reading.generation, asked)
    query, state, space_id = asked.query, reading.state, reading.space.id
    coverage, nearest, worded = await tx.together(
        tx.search.coverage(space_id),
        tx.search.nearest(space_id, asked.vector, wanted(query)),
        _worded(tx, space_id, asked),
    )
    found = page(query, nearest, worded)
    shown = await _matched(tx, asked.words, found.hits) if asked.words and found.hits else found.hits
    return Answer(state.source, state.epoch, shown, coverage, query.ranking, space_id, found.next_offset)


async def _found_in(tx: Transaction, reading: Reading, generation: Readable, asked: Asked) -> Answer | Unseen:
    """Answer by meaning alone: the entries of a generation have no words."""
    query, state = asked.query, reading.state
    hits = await legacy_hits(tx, asked.files, generation, asked.vector, wanted(query))
    if isinstance(hits, Unseen):
        return hits
    # counted for the page that is told alone, not for each that is looked at
    coverage = await legacy_coverage(tx, generation.generation_id)
    found = page(query, hits)
    return Answer(
        state.source, state.epoch, found.hits, coverage, Ranking.SEMANTIC, generation.space.id, found.next_offset
    )


async def _worded(tx: Transaction, space_id: str, asked: Asked) -> Sequence[WordMatch]:
    return await tx.search.worded(space_id, asked.vector, asked.words.words, HEAD) if asked.words else ()


async def _matched(tx: Transaction, words: QueryWords, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Name the fields of each hit that have the query's words, as they stand there now."""
    ids = [hit.meme_id for hit in hits]
    memes, contexts = await tx.together(tx.memes.get(ids), tx.contexts.get(ids))
    return tuple(
        evolve(hit, matched=(*hit.matched, *matched_fields(words, contexts[key].description, memes[key].filename)))
        if (key := hit.meme_id) in memes and key in contexts
        else hit
        for hit in hits
    )
