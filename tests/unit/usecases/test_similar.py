"""Pictures that look like another one: of the library, sent, or just uploaded."""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve, frozen
from tests.unit.usecases.site import Site, content

from imgproc_adapters.testing.factories import digest, new_id, vector
from imgproc_adapters.testing.models import Embedded
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A, B
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import (
    CacheNotReady,
    ImageCorrupt,
    InvalidQuery,
    MemeNotFound,
    ModelDeclined,
    ModelError,
    ModelNotConfigured,
    ModelTimeout,
)
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.ports.blobs import Staged
from imgproc_domain.ports.models import Declined, PictureInfo
from imgproc_domain.scope import Scope
from imgproc_domain.similar import NEAR_DUPLICATES, Likeness, Match
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.asking import Questions
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.edit import delete_meme, replace_picture
from imgproc_domain.usecases.similar import near_duplicates, similar_to, similar_to_picture
from imgproc_domain.vector import Vector

CAT, CROPPED, DOG = vector(1), vector(9, 1), vector(1, 1)
"""The cropped cat is a near duplicate of the cat; the dog is not."""

SHORT = timedelta(milliseconds=20)
UNSEEN = Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "the model cannot see it"), transient=False)


def seeing(looks: Mapping[str, Vector]) -> Site:
    """A library whose visual model knows what the pictures of these contents look like."""
    site = Site()
    by_name = {digest(name).hex: found for name, found in looks.items()}
    site.deployment.visual.script.always(lambda picture: by_name[picture.name])  # type: ignore[attr-defined]  # scripted
    return site


async def seen(site: Site, *names: str, scope: Scope = A) -> list[Meme]:
    """Upload pictures and do their visual stage."""
    memes = [await site.upload(name, scope) for name in names]
    await site.run(TaskType.VISUAL, scope)
    return memes


def told(found: tuple[Match, ...]) -> list[tuple[MemeId, Likeness]]:
    return [(match.meme_id, match.kind) for match in found]


async def test_a_picture_of_the_library_has_its_likes_and_is_not_among_them() -> None:
    site = seeing({"cat": CAT, "cropped": CROPPED, "dog": DOG})
    dog, cat, cropped = await seen(site, "dog", "cat", "cropped")
    calls = len(site.ledger.calls())
    found = await similar_to(site.deployment, A, cat.meme_id)
    assert told(found) == [(cropped.meme_id, Likeness.NEAR), (dog.meme_id, Likeness.SIMILAR)]
    assert len(site.ledger.calls()) == calls, "what was looked at is not looked at again"
    assert await similar_to(site.deployment, A, cat.meme_id, 1) == found[:1]
    assert await similar_to(site.deployment, A, cat.meme_id, min_score=0.99) == found[:1]


async def test_a_picture_whose_stage_is_still_to_come_is_looked_at_for_the_question_alone() -> None:
    site = seeing({"cat": CAT, "cropped": CROPPED})
    (cat,) = await seen(site, "cat")
    cropped = await site.upload("cropped")
    found = await similar_to(site.deployment, A, cropped.meme_id)
    assert told(found) == [(cat.meme_id, Likeness.NEAR)]
    assert [product.meme_id for product in site.view().visual] == [cat.meme_id]


async def test_foreign_deleted_and_unknown_pictures_are_not_there() -> None:
    site = seeing({"cat": CAT, "dog": DOG})
    await seen(site, "cat", "dog")
    (foreign,) = await seen(site, "cat", scope=B)
    deleted = await site.upload("dog")
    await delete_meme(site.deployment, A, deleted.meme_id)
    for meme_id in (foreign.meme_id, deleted.meme_id, MemeId(new_id())):
        with pytest.raises(MemeNotFound):
            await similar_to(site.deployment, A, meme_id)


async def test_nothing_is_alike_as_long_as_nothing_was_looked_at() -> None:
    site = seeing({"cat": CAT, "dog": DOG, "new": CAT})
    with pytest.raises(CacheNotReady) as empty:
        await similar_to_picture(site.deployment, A, content("new"))
    assert empty.value.details == {"total": 0}
    cat = await site.upload("cat")
    assert await similar_to(site.deployment, A, cat.meme_id) == ()
    await site.upload("dog")
    with pytest.raises(CacheNotReady):
        await similar_to(site.deployment, A, cat.meme_id)
    with pytest.raises(CacheNotReady):
        await similar_to_picture(site.deployment, A, content("new"))


async def test_deleted_and_replaced_pictures_are_not_alike_any_more() -> None:
    site = seeing({"cat": CAT, "gone": CAT, "old": CAT, "replaced": DOG})
    cat, gone, old = await seen(site, "cat", "gone", "old")
    await delete_meme(site.deployment, A, gone.meme_id)
    await replace_picture(site.deployment, A, old.meme_id, None, content("replaced"))
    with pytest.raises(CacheNotReady):
        await similar_to(site.deployment, A, cat.meme_id)
    await site.run(TaskType.VISUAL)
    assert told(await similar_to(site.deployment, A, cat.meme_id)) == [(old.meme_id, Likeness.SIMILAR)]


class RememberingBlobs(NameBlobs):
    """Knows what was staged and not discarded yet, and what was kept."""

    def __init__(self) -> None:
        self.staged: list[Staged] = []
        self.kept: list[Staged] = []

    async def stage(self, chunks: AsyncIterator[bytes], limit: int) -> Staged:
        self.staged.append(await super().stage(chunks, limit))
        return self.staged[-1]

    async def keep(self, scope: Scope, staged: Staged) -> str:
        self.kept.append(staged)
        return await super().keep(scope, staged)

    async def discard(self, staged: Staged) -> None:
        self.staged.remove(staged)


def forgetful(site: Site) -> tuple[Deployment, RememberingBlobs]:
    blobs = RememberingBlobs()
    return evolve(site.deployment, blobs=blobs), blobs


async def test_a_picture_that_is_sent_is_looked_at_and_forgotten() -> None:
    site = seeing({"cat": CAT, "dog": DOG, "sent": CROPPED})
    cat, dog = await seen(site, "cat", "dog")
    deployment, blobs = forgetful(site)
    found = await similar_to_picture(deployment, A, content("sent"))
    assert told(found) == [(cat.meme_id, Likeness.NEAR), (dog.meme_id, Likeness.SIMILAR)]
    assert (blobs.staged, blobs.kept) == ([], [])
    assert len(site.view().memes) == len(site.view().visual) == 2


async def test_the_same_bytes_come_first_before_anybody_looked_at_them() -> None:
    site = seeing({"cat": CAT, "dog": CAT})
    unseen = await site.upload("cat")
    alone = await similar_to_picture(site.deployment, A, content("cat"))
    assert alone == (Match(unseen.meme_id, 1.0, Likeness.EXACT),)
    (cat,) = await seen(site, "cat")
    dog = await site.upload("dog")
    found = await similar_to_picture(site.deployment, A, content("dog"))
    assert told(found) == [(dog.meme_id, Likeness.EXACT), (cat.meme_id, Likeness.NEAR)]
    assert await similar_to_picture(site.deployment, A, content("dog"), 1) == found[:1]


async def test_other_scopes_are_never_alike() -> None:
    site = seeing({"cat": CAT, "dog": DOG})
    await seen(site, "cat", scope=B)
    (dog,) = await seen(site, "dog")
    assert told(await similar_to_picture(site.deployment, A, content("cat"))) == [(dog.meme_id, Likeness.SIMILAR)]


@frozen
class BrokenDecoder:
    async def probe(self, path: Path) -> PictureInfo:
        raise ImageCorrupt(f"{path.name} cannot be decoded")

    async def thumbnail(self, path: Path, longest_side: int) -> bytes:
        raise ImageCorrupt(f"{path.name} has no {longest_side} pixels")


async def test_what_is_no_picture_is_refused_unseen_and_forgotten() -> None:
    site = Site()
    deployment, blobs = forgetful(site)
    with pytest.raises(ImageCorrupt):
        await similar_to_picture(evolve(deployment, decoder=BrokenDecoder()), A, content("broken"))
    assert blobs.staged == []
    assert site.ledger.calls() == []


@pytest.mark.parametrize(
    ("answer", "error"), [(UNSEEN, ModelDeclined), (vector(1, dimension=4), ModelNotConfigured)], ids=str
)
async def test_a_model_that_gives_no_vector_of_its_space_is_an_error(
    answer: Vector | Declined, error: type[ModelError]
) -> None:
    site = seeing({"cat": CAT})
    await seen(site, "cat")
    deployment, blobs = forgetful(site)
    site.deployment.visual.script.then(answer)  # type: ignore[attr-defined]  # scripted
    with pytest.raises(error):
        await similar_to_picture(deployment, A, content("new"))
    assert blobs.staged == []


async def test_a_model_that_hangs_holds_nobody_and_no_picture() -> None:
    site = seeing({"cat": CAT})
    await seen(site, "cat")
    new = await site.upload("new")
    site.deployment = evolve(site.deployment, limits=evolve(site.deployment.limits, answer_within=SHORT))
    deployment, blobs = forgetful(site)
    hangs: list[Held[Embedded]] = [Held(CAT), Held(CAT)]
    site.deployment.visual.script.then(*hangs)  # type: ignore[attr-defined]  # scripted
    with pytest.raises(ModelTimeout):
        await similar_to_picture(deployment, A, content("sent"))
    assert blobs.staged == []
    with pytest.raises(ModelTimeout):
        await similar_to(deployment, A, new.meme_id)
    await deployment.questions.close()


async def test_what_looks_pictures_up_for_people_is_bounded_together() -> None:
    site = seeing({"cat": CAT, "new": CAT})
    await seen(site, "cat")
    new = await site.upload("new")
    limits = evolve(site.deployment.limits, answer_within=SHORT)
    site.deployment = evolve(site.deployment, limits=limits, questions=Questions(at_once=1))
    before = len(site.ledger.calls())
    hangs: Held[Embedded] = Held(CAT)
    site.deployment.visual.script.then(hangs)  # type: ignore[attr-defined]  # scripted
    with pytest.raises(ModelTimeout):
        await similar_to(site.deployment, A, new.meme_id)
    assert await found_for(site, new) == {}
    with pytest.raises(ModelTimeout):
        await similar_to_picture(site.deployment, A, content("cat"))
    assert len(site.ledger.calls()) == before + 1, "one call, which has begun"
    await site.deployment.questions.close()


async def test_what_cannot_be_wanted_is_refused_before_anything_is_read() -> None:
    site, read = Site(), list[bytes]()

    async def watched() -> AsyncIterator[bytes]:
        read.append(b"cat")
        yield read[-1]

    with pytest.raises(InvalidQuery):
        await similar_to_picture(site.deployment, A, watched(), 101)
    assert read == []
    with pytest.raises(InvalidQuery):
        await similar_to(site.deployment, A, MemeId(new_id()), min_score=2.0)


async def found_for(site: Site, *memes: Meme) -> dict[MemeId, list[MemeId]]:
    found = near_duplicates(site.deployment, A, memes)
    return {meme_id: [match.meme_id for match in matches] async for meme_id, matches in found}


async def test_a_new_picture_has_the_near_duplicates_that_were_there_and_no_others() -> None:
    site = seeing({"cat": CAT, "cropped": CROPPED, "dog": DOG})
    cat, dog = await seen(site, "cat", "dog")
    cropped = await site.upload("cropped")
    assert await found_for(site, cropped) == {cropped.meme_id: [cat.meme_id]}
    assert {product.meme_id for product in site.view().visual} == {cat.meme_id, dog.meme_id}, "nothing is stored"


async def test_of_pictures_that_came_together_the_later_one_names_the_earlier_one() -> None:
    site = seeing({"cat": CAT, "cropped": CROPPED, "dog": DOG})
    cat, cropped, dog = [await site.upload(name) for name in ("cat", "cropped", "dog")]
    found = await found_for(site, cat, cropped, dog)
    assert found == {cat.meme_id: [], cropped.meme_id: [cat.meme_id], dog.meme_id: []}


async def test_an_earlier_picture_that_was_looked_at_since_is_named_once() -> None:
    site = seeing({"cat": CAT, "cropped": CROPPED})
    cat, cropped = await seen(site, "cat", "cropped")
    assert await found_for(site, cat, cropped) == {cat.meme_id: [cropped.meme_id], cropped.meme_id: [cat.meme_id]}


async def test_an_earlier_picture_that_is_gone_or_replaced_by_now_is_not_named() -> None:
    site = seeing({"cat": CAT, "gone": CAT, "old": CAT, "replaced": DOG})
    gone, old, cat = [await site.upload(name) for name in ("gone", "old", "cat")]
    found = near_duplicates(site.deployment, A, [gone, old, cat])
    for _ in range(2):
        await anext(found)
    await delete_meme(site.deployment, A, gone.meme_id)
    await replace_picture(site.deployment, A, old.meme_id, None, content("replaced"))
    assert await anext(found) == (cat.meme_id, ())


async def test_a_picture_that_cannot_be_seen_is_passed_over() -> None:
    site = seeing({"cat": CAT, "cropped": CROPPED})
    (cat,) = await seen(site, "cat")
    unseen, cropped = await site.upload("unseen"), await site.upload("cropped")
    site.deployment.visual.script.then(UNSEEN)  # type: ignore[attr-defined]  # scripted
    assert await found_for(site, unseen, cropped) == {cropped.meme_id: [cat.meme_id]}


async def test_only_the_nearest_few_are_named() -> None:
    names = [f"cat-{n}" for n in range(NEAR_DUPLICATES + 2)]
    site = seeing(dict.fromkeys([*names, "new"], CAT))
    cats = await seen(site, *names)
    new = await site.upload("new")
    assert await found_for(site, new) == {new.meme_id: [cat.meme_id for cat in cats[:NEAR_DUPLICATES]]}


async def test_from_which_score_on_pictures_are_near_duplicates_is_a_setting() -> None:
    site = seeing({"dog": DOG, "cat": CAT})
    (dog,) = await seen(site, "dog")
    cat = await site.upload("cat")
    site.deployment = evolve(site.deployment, limits=evolve(site.deployment.limits, near_score=0.7))
    assert await found_for(site, cat) == {cat.meme_id: [dog.meme_id]}
    assert told(await similar_to(site.deployment, A, cat.meme_id)) == [(dog.meme_id, Likeness.NEAR)]
