"""Find pictures that look like another one, and tell whoever uploads what is there already."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path

from imgproc_domain.errors import CacheNotReady, MemeNotFound, ModelError
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.ports.models import Declined, Lost
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.search import Neighbour
from imgproc_domain.similar import NEAR_DUPLICATES, Match, Wanted, matches, parse_wanted
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.vector import Vector


async def similar_to(
    deployment: Deployment, scope: Scope, meme_id: MemeId, n_results: int = 10, min_score: float | None = None
) -> tuple[Match, ...]:
    """Return the pictures that look most like one of the library, which is not among them.

    If its visual stage is still to come, a vector is made for this question alone.

    Raises:
        InvalidQuery: ``n_results`` outside 1..100, ``min_score`` outside -1..1.
        MemeNotFound: unknown, deleted and foreign ids alike.
        CacheNotReady: there are other pictures, but none has been looked at yet.
        ModelNotConfigured, ModelDeclined, ModelUnavailable, ModelTimeout: the visual model has no vector for it, as
            `Questions.ask` says.
    """
    wanted = parse_wanted(n_results, min_score)
    async with deployment.uow.begin(scope) as tx:
        meme = (await tx.memes.get([meme_id])).get(meme_id)
        if meme is None or not meme.exists:
            raise MemeNotFound("there is no such picture", meme_id=str(meme_id))
        vector = await tx.similar.vector(meme_id, deployment.visual.space.id)
        if vector is not None:
            return await _similar(tx, deployment, vector, wanted, without=meme_id)
    vector = await _look(deployment, deployment.blobs.path(scope, meme.picture.storage_key))
    async with deployment.uow.begin(scope) as tx:
        return await _similar(tx, deployment, vector, wanted, without=meme_id)


async def similar_to_picture(
    deployment: Deployment,
    scope: Scope,
    chunks: AsyncIterator[bytes],
    n_results: int = 10,
    min_score: float | None = None,
) -> tuple[Match, ...]:
    """Return the pictures that look most like one that is sent; its bytes are gone when this returns.

    A picture of the library with the same bytes comes first, as an exact match.

    Raises:
        InvalidQuery: ``n_results`` outside 1..100, ``min_score`` outside -1..1; nothing was read.
        PictureRejected: no acceptable picture, or too large.
        InsufficientStorage: no room to stage it.
        CacheNotReady: the library has no picture, or none that has been looked at yet.
        ModelError: as `similar_to`.
    """
    wanted = parse_wanted(n_results, min_score)
    staged = await deployment.blobs.stage(chunks, deployment.limits.upload_bytes)
    try:
        await deployment.decoder.probe(staged.path)
        vector = await _look(deployment, staged.path)
    finally:
        await deployment.blobs.discard(staged)
    async with deployment.uow.begin(scope) as tx:
        same = (await tx.memes.by_content([staged.sha256])).get(staged.sha256)
        return await _similar(tx, deployment, vector, wanted, exact=same.meme_id if same else None)


async def near_duplicates(
    deployment: Deployment, scope: Scope, memes: Sequence[Meme]
) -> AsyncGenerator[tuple[MemeId, tuple[Match, ...]], None]:
    """Yield, for each of these pictures, its near duplicates: those in the library, and those before it in ``memes``.

    For pictures that were just taken in, whose visual stage is still to come: each is looked at here once, and
    nothing is stored. One that the model cannot see is passed over.
    """
    seen: dict[MemeId, tuple[Meme, Vector]] = {}
    wanted = Wanted(NEAR_DUPLICATES, deployment.limits.near_score)
    for meme in memes:
        try:
            vector = await _look(deployment, deployment.blobs.path(scope, meme.picture.storage_key))
        except ModelError:
            continue
        async with deployment.uow.begin(scope) as tx:
            stored = await tx.similar.nearest(deployment.visual.space.id, vector, NEAR_DUPLICATES, meme.meme_id)
            alive = await _unchanged(tx, {key: before for key, (before, _) in seen.items()})
        beside = [Neighbour(key, vector.cosine_distance(seen[key][1])) for key in alive]
        yield meme.meme_id, matches([*stored, *beside], wanted, deployment.limits.near_score)
        seen[meme.meme_id] = (meme, vector)


async def _similar(
    tx: Transaction,
    deployment: Deployment,
    vector: Vector,
    wanted: Wanted,
    *,
    without: MemeId | None = None,
    exact: MemeId | None = None,
) -> tuple[Match, ...]:
    found = await tx.similar.nearest(deployment.visual.space.id, vector, wanted.n_results, without)
    if not found and exact is None:
        others = await tx.memes.count() - (without is not None)
        # a picture that is alone in its library has nothing like it; one that is sent to an empty one was not compared
        if others > 0 or without is None:
            raise CacheNotReady("no picture of this library has been looked at yet", total=others)
    return matches(found, wanted, deployment.limits.near_score, exact)


async def _unchanged(tx: Transaction, memes: Mapping[MemeId, Meme]) -> list[MemeId]:
    """Return those that still are what they were a moment ago."""
    now = await tx.memes.get(list(memes))
    return [
        key
        for key, before in memes.items()
        if key in now and now[key].exists and now[key].picture.sha256 == before.picture.sha256
    ]


async def _look(deployment: Deployment, path: Path) -> Vector:
    """Return the vector of one picture, for a question: it is stored nowhere."""
    model = deployment.visual

    async def call() -> Vector | Declined | Lost:
        (answer,) = await model.embed([path])
        return answer

    return await deployment.questions.ask(model, call, deployment.limits.answer_within)
