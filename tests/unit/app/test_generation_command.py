"""How far the building of a generation is, also where searches read another one."""

import asyncio
import io

from rich.console import Console
from tests.unit.usecases.gallery import Gallery

from imgproc_adapters.testing.seed import A
from imgproc_app.cli.backfill_view import Advance
from imgproc_app.cli.generation_command import built
from imgproc_app.cli.output import Output
from imgproc_domain.ids import TaskId
from imgproc_domain.usecases.edit import delete_meme
from imgproc_domain.usecases.maintenance import list_generations, request_generation, to_copy
from imgproc_domain.usecases.migrate_search import status


async def shown(gallery: Gallery, task_id: TaskId) -> str:
    """Return what a terminal shows of a generation at one moment."""
    said, stop = io.StringIO(), asyncio.Event()
    stop.set()
    console = Console(file=said, force_terminal=True, width=100)
    advance = Advance(Output(as_json=False, out=Console(file=io.StringIO()), err=console))
    await built(gallery.deployment, A, task_id, advance, stop)
    return said.getvalue()


async def test_in_a_legacy_scope_what_is_copied_is_counted_and_not_what_is_read() -> None:
    gallery = Gallery()
    await gallery.hang(2)
    await gallery.to_legacy()
    await gallery.hang(3, name="later")
    assert (await status(gallery.deployment, A)).coverage.searchable == 2
    queued = await request_generation(gallery.deployment, A)
    assert "0/5" in await shown(gallery, queued.task_id)


async def test_a_picture_that_is_gone_is_not_waited_for() -> None:
    gallery = Gallery()
    gone, *_ = await gallery.hang(3)
    await delete_meme(gallery.deployment, A, gone.meme_id)
    await gallery.build()
    (begun,) = (await list_generations(gallery.deployment, A, None, 1)).generations
    assert begun.generation is not None
    assert begun.generation.entries == await to_copy(gallery.deployment, A) == 2
    assert "2/2" in await shown(gallery, begun.task.task_id)
