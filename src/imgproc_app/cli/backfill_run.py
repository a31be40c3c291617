"""The long parts of a backfill: one scope after the other, page by page, until done or told to stop."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

from attrs import evolve, frozen

from imgproc_app.cli.backfill_view import Advance, Refused, Tally
from imgproc_app.cli.opening import opened
from imgproc_app.cli.scopes import each_wanted
from imgproc_app.cli.session import INTERRUPTED, Session, Stop, first_of
from imgproc_app.lifecycle import Runtime
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import InvalidValue, MigrationConflict, ModelNotConfigured
from imgproc_domain.scope import Scope
from imgproc_domain.usecases.backfill import Embedded, Embedding, Pace, Seeded, Seeding, count, embed, seed

P = TypeVar("P")


@frozen
class Call:
    """What was typed. ``rate`` is in pictures a second, over all scopes."""

    session: Session
    scopes: Sequence[Scope]
    rate: float | None = None


async def seed_all(call: Call, wanted: Seeding, stop: Stop) -> int:
    """Seed every wanted scope and return the exit code."""
    tally = Tally.of("queued", "already_there", "not_queued")
    async with opened(call.session.settings()) as runtime:

        def pages(scope: Scope, pace: Pace) -> AsyncGenerator[Seeded, None]:
            return seed(runtime.deployment, scope, wanted, pace)

        def note(_: Scope, page: Seeded) -> int:
            tally.counts.update(queued=page.opened, already_there=page.reused, not_queued=page.refused)
            return page.seen

        await _Run(call, runtime, stop, tally).over(pages, note)
    if tally.counts["queued"]:
        call.session.output.note("'imgproc serve' or 'imgproc worker' processes them")
    return _finish(call, tally, stop, unwell="not_queued")


async def embed_all(call: Call, wanted: Embedding, model: str | None, stop: Stop) -> int:
    """Embed what is missing in every wanted scope and return the exit code."""
    tally = Tally.of("embedded", "taken_over", "changed_meanwhile", "failed")
    async with opened(call.session.settings()) as runtime:
        wanted = evolve(wanted, space=None if model is None else space_of(runtime, model))

        def pages(scope: Scope, pace: Pace) -> AsyncGenerator[Embedded, None]:
            return embed(runtime.deployment, scope, wanted, pace)

        def note(scope: Scope, page: Embedded) -> int:
            tally.counts.update(embedded=page.embedded, taken_over=page.adopted, changed_meanwhile=page.changed)
            tally.fail(scope, page.failed)
            return page.seen

        await _Run(call, runtime, stop, tally).over(pages, note)
    code = _finish(call, tally, stop, unwell="failed")
    if code == 0:
        call.session.output.note("'imgproc backfill status' shows what is missing and what a switch would serve")
    return code


def space_of(runtime: Runtime, name: str) -> VectorSpace:
    """Return the space of a model of this process; raises `InvalidValue` if it has none of this name."""
    for model in (runtime.local_models.text, *runtime.local_models.more_text):
        if model.host.setup.text_model == name:
            return model.space
    raise InvalidValue(
        f"{name} is none of the text models of these settings: add it to IMGPROC_MORE_TEXT_MODELS, here and of every"
        " process that searches or works, and start those again"
    )


@frozen
class _Run:
    call: Call
    runtime: Runtime
    stop: Stop
    tally: Tally

    async def over(
        self, pages: Callable[[Scope, Pace], AsyncGenerator[P, None]], note: Callable[[Scope, P], int]
    ) -> None:
        """Go through the pages of every scope; ``note`` counts one and returns how many pictures it has seen."""
        pace, advance = Pace(self.call.rate), Advance(self.call.session.output)
        with advance.shown():
            async with aclosing(each_wanted(self.runtime, self.call.scopes)) as scopes:
                async for scope in scopes:
                    if self.stop.is_set():
                        break
                    advance.begin(scope, await count(self.runtime.deployment, scope))
                    try:
                        async with aclosing(_until(self.stop, pages(scope, pace))) as shown:
                            async for page in shown:
                                advance.seen(note(scope, page))
                        self.tally.scopes += not self.stop.is_set()
                    except (MigrationConflict, ModelNotConfigured) as error:
                        self.tally.refused.append(Refused(scope, error))


async def _until(stop: Stop, pages: AsyncGenerator[P, None]) -> AsyncGenerator[P, None]:
    """Yield pages until there are no more, or until ``stop``: a page that is under way is then given up."""
    async with aclosing(pages):
        while not stop.is_set():
            under_way = asyncio.ensure_future(anext(pages, None))
            if not await first_of(under_way, stop):
                under_way.cancel()
                await asyncio.wait([under_way])
                return
            page = under_way.result()
            if page is None:
                return
            yield page


def _finish(call: Call, tally: Tally, stop: Stop, unwell: str) -> int:
    """Show what came of it and return the exit code: 1 if a scope was refused, or one of the ``unwell`` pictures."""
    output = call.session.output
    if output.as_json:
        output.document({**tally.document(), "interrupted": stop.is_set()})
    else:
        tally.show(output)
    if stop.is_set():
        output.note("interrupted: run the same command again to go on")
        return INTERRUPTED
    return int(bool(tally.refused or tally.counts[unwell]))
