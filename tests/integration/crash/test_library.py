"""A process dies while it takes a picture in, replaces or deletes one: there is an external step between commits there.

What people do in one transaction alone (edit a context, submit again) has no such boundary. A reservation may outlive
the death: docs/adr/0009.
"""

from collections.abc import Sequence

import pytest
from tests.integration.crash.program import Step, Work, content_of
from tests.integration.crash.scene import Open, Scene
from tests.integration.crash.site import SCOPE
from tests.integration.crash.table import Reserved

from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.testing.crash import Death
from imgproc_adapters.testing.factories import digest
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.seed import NO_TIME
from imgproc_domain.errors import MemeNotFound
from imgproc_domain.job import JobStatus
from imgproc_domain.policy import Operation
from imgproc_domain.usecases.edit import delete_meme, replace_picture
from imgproc_domain.usecases.ingest import UploadStatus

P, C = Death.PASSED, Death.COMMITTING
RESERVED, SPENT, RETURNED = Reserved.RESERVED, Reserved.SPENT, Reserved.RETURNED

NOT_YET = [(Step.PERMITTED, P), (Step.KEPT, P), (Step.KEPT, C)]
"""Where the rows of an upload or a replacement are not there yet."""
DONE = [(Step.DURABLE, P), (Step.SPENT, P)]


def kept(here: Scene) -> set[str]:
    """Return the digests of the pictures whose bytes are in their place."""
    return {file.name for file in (here.site.folder / "blobs" / "objects").rglob("*") if file.is_file()}


def staged(here: Scene) -> Sequence[object]:
    """Return what is left of unfinished uploads once a process has started that takes them for stale."""
    root = here.site.folder / "blobs"
    LocalBlobStore(root, stale_after=NO_TIME)
    return list((root / "staging").iterdir())


async def finished(here: Scene) -> None:
    """Let everything be processed, and check that nothing is left over."""
    async with here.working():
        await here.rest()
    check_invariants(await here.view())
    await here.expect_rest()
    assert staged(here) == []


@pytest.mark.parametrize(("step", "death"), [*NOT_YET, *DONE], ids=str)
async def test_an_upload_is_there_or_not_and_the_same_upload_again_finds_out(
    step: Step, death: Death, scene: Open
) -> None:
    here = await scene()
    await here.dies(step, death, work=Work.UPLOAD, content="cat")
    there = (step, death) in DONE
    first = SPENT if step is Step.SPENT else RESERVED
    view = await here.view()
    check_invariants(view)
    assert (len(view.memes), len(view.jobs)) == (there, there)
    assert await here.reservations(Operation.IMAGE_UPLOAD) == [first]
    assert kept(here) == (set() if step is Step.PERMITTED else {digest("cat").hex})

    again = await here.upload("cat")
    assert again.status is (UploadStatus.DUPLICATE if there else UploadStatus.CREATED)
    assert await here.reservations(Operation.IMAGE_UPLOAD) == [first, RETURNED if there else SPENT]
    assert kept(here) == {digest("cat").hex}
    await finished(here)
    (job,) = (await here.view()).jobs
    assert (job.revision, job.status) == (1, JobStatus.SUCCEEDED)


@pytest.mark.parametrize(("step", "death"), [*NOT_YET, *DONE], ids=str)
async def test_a_replacement_is_there_or_not(step: Step, death: Death, scene: Open) -> None:
    here = await scene()
    meme = (await here.upload("cat")).meme
    await here.dies(step, death, work=Work.REPLACE, meme_id=meme.meme_id, content="dog")
    there = (step, death) in DONE
    (found,) = (await here.view()).memes
    assert found.picture.sha256 == digest("dog" if there else "cat")
    first = SPENT if step is Step.SPENT else RESERVED
    assert await here.reservations(Operation.IMAGE_UPLOAD) == [SPENT, first]

    await replace_picture(here.deployment(), SCOPE, meme.meme_id, None, content_of("dog"))
    assert await here.reservations(Operation.IMAGE_UPLOAD) == [SPENT, first, SPENT]
    await finished(here)
    view = await here.view()
    assert [found.picture.sha256 for found in view.memes] == [digest("dog")]
    jobs = sorted(view.jobs, key=lambda job: job.revision)
    assert [(job.image_sha256, job.status) for job in jobs] == [
        (digest("cat"), JobStatus.FAILED),
        (digest("dog"), JobStatus.SUCCEEDED),
    ]
    assert len(view.findable) == 1


@pytest.mark.parametrize(("step", "death"), [(Step.PERMITTED, P), (Step.PERMITTED, C), *DONE], ids=str)
async def test_a_deletion_has_happened_or_not(step: Step, death: Death, scene: Open) -> None:
    here = await scene()
    meme = (await here.upload()).meme
    await here.dies(step, death, work=Work.DELETE, meme_id=meme.meme_id)
    gone = (step, death) in DONE
    (found,) = (await here.view()).memes
    assert found.exists is not gone
    first = SPENT if step is Step.SPENT else RESERVED
    assert await here.reservations(Operation.IMAGE_DELETE) == [first]

    if gone:
        with pytest.raises(MemeNotFound):
            await delete_meme(here.deployment(), SCOPE, meme.meme_id)
    else:
        await delete_meme(here.deployment(), SCOPE, meme.meme_id)
    assert await here.reservations(Operation.IMAGE_DELETE) == [first, RETURNED if gone else SPENT]
    await finished(here)
    assert [job.status for job in (await here.view()).jobs] == [JobStatus.FAILED]
