"""The steps of a scope's search state: each raises the epoch, and none makes a query lose what it could find.

A query locks nothing: it reads the state, and its rows as they were at that moment (I15).
A step locks the state. While something is being completed - the findable vectors beside a legacy index, a space beside
the serving one - whoever makes a vector findable shares a lock on the state until that is committed. So a switch that
has the lock sees, in its next statement, every vector that was made findable before it, in whichever space, and none
comes in between that look and its end. What an edit, a replacement or a deletion takes away is taken away in every
space at once, and needs no lock for that.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

from attrs import frozen

from imgproc_domain import migration as steps
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import LegacyNotReady, MigrationConflict, ModelNotConfigured, SearchIncomplete
from imgproc_domain.events import SearchMoved
from imgproc_domain.migration import Generation, SearchMode, SearchState
from imgproc_domain.ports.search import Readable
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.search import Coverage, Source
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.legacy import legacy_coverage

_Decide = Callable[[Transaction, SearchState], Awaitable[SearchState]]
RollbackTo = VectorSpace | Literal[Source.LEGACY] | None

_NAMED: Final = 20
"""How many missing pictures an error names."""


@frozen
class MigrationStatus:
    """Where a scope's search stands.

    ``read`` is the space that searches read now, and ``coverage`` what they find there: a legacy source has those of
    ``generation``, the newest complete one. ``serving`` is the space that incremental searches read, ``target`` the one
    they would read behind a switch, and ``missing`` how many indexable memes that one lacks.
    """

    state: SearchState
    read: VectorSpace
    serving: VectorSpace
    coverage: Coverage
    target: VectorSpace
    missing: int
    generation: Generation | None


@frozen
class SearchReading:
    """What searches read now, and what they find there, for whoever searches: nothing of it is a scan for everybody."""

    state: SearchState
    read: VectorSpace
    coverage: Coverage


async def reading(deployment: Deployment, scope: Scope) -> SearchReading:
    """Return what searches read; of what a space lacks, which takes a scan of the scope, operators ask `status`."""
    async with deployment.uow.begin(scope) as tx:
        state = await tx.search.state()
        generation = await tx.generations.readable() if state.source is Source.LEGACY else None
        return await _read(tx, deployment, state, generation)


async def status(deployment: Deployment, scope: Scope) -> MigrationStatus:
    """Count what a scope's search has and lacks: a scan of the scope."""
    async with deployment.uow.begin(scope) as tx:
        state = await tx.search.state()
        target = _target(deployment, state)
        generation = await tx.generations.newest()
        found = await _read(tx, deployment, state, generation)
        return MigrationStatus(
            state=state,
            read=found.read,
            serving=deployment.serving(state),
            coverage=found.coverage,
            target=target,
            missing=await tx.migration.count_missing(target),
            generation=generation,
        )


async def _read(
    tx: Transaction, deployment: Deployment, state: SearchState, generation: Generation | Readable | None
) -> SearchReading:
    serving = deployment.serving(state)
    if state.source is Source.INCREMENTAL:
        return SearchReading(state, serving, await tx.search.coverage(serving.id))
    if generation is None:
        return SearchReading(state, serving, await legacy_coverage(tx, None))
    return SearchReading(state, generation.space, await legacy_coverage(tx, generation.generation_id))


async def start(deployment: Deployment, scope: Scope) -> SearchState:
    """Begin to leave the legacy index, which goes on answering. A scope that has begun, or has left, stays as it is."""

    async def step(tx: Transaction, state: SearchState) -> SearchState:  # noqa: ARG001 - as every step
        return steps.start(state) if state.mode is SearchMode.LEGACY_ONLY else state

    return await _step(deployment, scope, step)


async def begin_filling(deployment: Deployment, scope: Scope, space: VectorSpace) -> SearchState:
    """Fill a space beside the serving one. A scope that it serves, or that fills it already, stays as it is.

    Raises:
        MigrationConflict: another space is being filled.
    """

    async def step(tx: Transaction, state: SearchState) -> SearchState:  # noqa: ARG001 - as every step
        return _filled(deployment, state, space)

    return await _step(deployment, scope, step)


async def switch(deployment: Deployment, scope: Scope, allow_missing: int = 0) -> SearchState:
    """Let searches read what was completed: the space that was filled, and no legacy index any more.

    At most ``allow_missing`` indexable pictures may be missing there: they cannot be found until they are embedded.

    Raises:
        MigrationConflict: nothing was being completed.
        SearchIncomplete: more are missing; nothing was changed.
    """
    await _look_ahead(deployment, scope, allow_missing)

    async def step(tx: Transaction, state: SearchState) -> SearchState:
        if state.settled:
            raise _conflict(state, "nothing is being completed that searches could switch to")
        target = _target(deployment, state)
        await _expect_complete(tx, target, allow_missing)
        return steps.switch(state, target) if state.mode is SearchMode.BACKFILL else steps.serve(state)

    return await _step(deployment, scope, step)


async def rollback(deployment: Deployment, scope: Scope, to: RollbackTo = None, allow_missing: int = 0) -> SearchState:
    """Go back: stop what was begun (None), or read the legacy index, or a former space, again.

    A former space is filled beside the present one until nothing is missing there, as any other: most of it is there
    still. If it is complete, this is one step more and it serves again.

    Raises:
        LegacyNotReady: the scope has no complete generation.
        ModelNotConfigured: it has one, of a space whose model this process does not have.
        MigrationConflict: nothing was begun, the space serves already, or another one is being filled.
        SearchIncomplete: pictures are missing in the former space. It is being filled now: embed them, and switch.
    """
    if isinstance(to, VectorSpace):
        return await _back_to(deployment, scope, to, allow_missing)

    async def step(tx: Transaction, state: SearchState) -> SearchState:
        if to is None and state.filling is not None:
            return steps.unfill(state)
        if to is None and state.mode is not SearchMode.BACKFILL:
            raise _conflict(state, "nothing was begun that could be stopped")
        await _expect_readable(tx, deployment)
        return state if state.mode is SearchMode.LEGACY_ONLY else steps.rollback(state)

    return await _step(deployment, scope, step)


async def _expect_readable(tx: Transaction, deployment: Deployment) -> None:
    generation = await tx.generations.readable()
    if generation is None:
        raise LegacyNotReady("there is no complete generation that searches could read")
    if deployment.text_model(generation.space) is None:
        message = f"the newest generation is of {generation.space.id}: add its model to the further text models"
        raise ModelNotConfigured(message, space_id=generation.space.id)


async def _back_to(deployment: Deployment, scope: Scope, space: VectorSpace, allow_missing: int) -> SearchState:
    async def step(tx: Transaction, state: SearchState) -> SearchState:  # noqa: ARG001 - as every step
        if space.id == deployment.serving(state).id:
            if state.filling is None:
                raise _conflict(state, "searches read that space already")
            return steps.unfill(state)
        return _filled(deployment, state, space)

    async def serve(tx: Transaction, state: SearchState) -> SearchState:
        if state.filling != space:
            raise _conflict(state, "somebody else has changed what is being filled")
        await _expect_complete(tx, space, allow_missing)
        return steps.serve(state)

    begun = await _step(deployment, scope, step)
    if begun.filling is None:
        return begun
    await _look_ahead(deployment, scope, allow_missing)
    return await _step(deployment, scope, serve)


def _filled(deployment: Deployment, state: SearchState, space: VectorSpace) -> SearchState:
    if space in (state.filling, deployment.serving(state)):
        return state
    if state.filling is not None:
        raise _conflict(state, f"{state.filling.id} is being filled: switch to it, or roll back, before another one")
    return steps.begin_filling(state, deployment.text.space, space)


async def _look_ahead(deployment: Deployment, scope: Scope, allow_missing: int) -> None:
    """Raise `SearchIncomplete` where a step would, before it has a lock that others wait for."""
    async with deployment.uow.begin(scope) as tx:
        state = await tx.search.state()
        if not state.settled:
            await _expect_complete(tx, _target(deployment, state), allow_missing)


async def _expect_complete(tx: Transaction, space: VectorSpace, allow_missing: int) -> None:
    """Raise `SearchIncomplete` if more memes are missing in a space, as this statement sees the scope."""
    first = await tx.migration.first_missing(space, _NAMED + 1)
    # whatever is allowed, no more than these are held in memory
    missing = len(first) if len(first) <= _NAMED else await tx.migration.count_missing(space)
    if missing <= allow_missing:
        return
    raise SearchIncomplete(
        f"{missing} picture{'' if missing == 1 else 's'} cannot be found in {space.id} yet",
        missing=missing,
        meme_ids=[str(meme_id) for meme_id in first[:_NAMED]],
        space_id=space.id,
    )


async def _step(deployment: Deployment, scope: Scope, decide: _Decide) -> SearchState:
    """Decide one step under the state's lock, and write it if it changes anything."""

    async def once() -> tuple[SearchState, SearchState]:
        async with deployment.uow.begin(scope) as tx:
            before = await tx.migration.lock()
            after = await decide(tx, before)
            if after != before:
                await tx.migration.save(after)
            return before, after

    before, after = await decided_again(once)
    if after != before:
        deployment.observer.note(SearchMoved(scope, after.mode, after.epoch))
    return after


def _target(deployment: Deployment, state: SearchState) -> VectorSpace:
    return state.filling or deployment.serving(state)


def _conflict(state: SearchState, message: str) -> MigrationConflict:
    return MigrationConflict(message, mode=state.mode.value, epoch=state.epoch)
