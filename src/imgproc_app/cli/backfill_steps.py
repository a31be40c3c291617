"""The short parts of a backfill: what a scope's searches read is shown, or changed in one transaction a scope."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Final, Literal, assert_never

from imgproc_app.cli.backfill_run import Call, space_of
from imgproc_app.cli.backfill_view import Refused, named_space, show_refused, status_document, status_table
from imgproc_app.cli.opening import opened
from imgproc_app.cli.output import table_of
from imgproc_app.cli.scopes import each_wanted
from imgproc_app.lifecycle import Runtime
from imgproc_domain.errors import LegacyNotReady, MigrationConflict, ModelNotConfigured, SearchIncomplete
from imgproc_domain.migration import SearchState
from imgproc_domain.scope import Scope
from imgproc_domain.search import Source
from imgproc_domain.usecases.migrate_search import RollbackTo, rollback, start, status, switch

Step = Literal["start", "switch", "rollback"]

_NAMED: Final = 10


async def change_all(call: Call, step: Step, *, to: str | None = None, allow_missing: int = 0) -> int:
    """Take one step in every wanted scope and return the exit code: 1 if one was refused."""
    changed: list[tuple[Scope, SearchState]] = []
    refused: list[Refused] = []
    async with opened(call.session.settings()) as runtime:
        target = _target(runtime, to)
        async with aclosing(each_wanted(runtime, call.scopes)) as scopes:
            async for scope in scopes:
                try:
                    changed.append((scope, await _step(runtime, scope, step, target, allow_missing)))
                except MigrationConflict as error:
                    # where no scope was named, those without anything to change are no complaint
                    if call.scopes:
                        refused.append(Refused(scope, error))
                except (SearchIncomplete, LegacyNotReady, ModelNotConfigured) as error:
                    refused.append(Refused(scope, error))
    _show_changed(call, runtime, changed, refused)
    return int(bool(refused))


async def show_all(call: Call) -> int:
    """Show every wanted scope and return the exit code: 1 if one is searched with a model that is not here."""
    async with opened(call.session.settings()) as runtime:
        async with aclosing(each_wanted(runtime, call.scopes)) as scopes:
            found = [(scope, await status(runtime.deployment, scope)) async for scope in scopes]
        foreign = [scope for scope, seen in found if runtime.deployment.text_model(seen.read) is None]
    output = call.session.output
    if output.as_json:
        output.document({"scopes": [status_document(scope, seen) for scope, seen in found]})
    elif found:
        output.table(status_table(runtime, found))
    else:
        output.say("there is no scope yet")
    if foreign:
        named = ", ".join(foreign[:_NAMED]) + (" and more" if len(foreign) > _NAMED else "")
        output.note(f"searched with a model that these settings do not have: {named}")
    return int(bool(foreign))


def _target(runtime: Runtime, to: str | None) -> RollbackTo:
    if to is None:
        return None
    return Source.LEGACY if to == Source.LEGACY else space_of(runtime, to)


async def _step(runtime: Runtime, scope: Scope, step: Step, target: RollbackTo, allow_missing: int) -> SearchState:
    match step:
        case "start":
            return await start(runtime.deployment, scope)
        case "switch":
            return await switch(runtime.deployment, scope, allow_missing)
        case "rollback":
            return await rollback(runtime.deployment, scope, target, allow_missing)
        case _:
            assert_never(step)


def _show_changed(
    call: Call, runtime: Runtime, changed: list[tuple[Scope, SearchState]], refused: list[Refused]
) -> None:
    output = call.session.output
    if output.as_json:
        states = [_document(scope, state) for scope, state in changed]
        output.document({"scopes": states, "refused": [one.document() for one in refused]})
        return
    rows = [_row(runtime, scope, state) for scope, state in changed]
    if rows:
        output.table(table_of("", ("scope", "mode", "epoch", "searched with", "being filled"), rows, right=["epoch"]))
    elif not refused:
        output.say("there is nothing to change")
    show_refused(output, refused)


def _row(runtime: Runtime, scope: Scope, state: SearchState) -> tuple[str, ...]:
    serving = named_space(runtime, state.serving) if state.serving else ""
    read = "legacy index" if state.source is Source.LEGACY else serving
    filling = named_space(runtime, state.filling) if state.filling else ""
    return scope, state.mode.value, str(state.epoch), read, filling


def _document(scope: Scope, state: SearchState) -> Mapping[str, object]:
    return {
        "scope": scope,
        "mode": state.mode.value,
        "epoch": state.epoch,
        "serving": state.serving.id if state.serving else None,
        "filling": state.filling.id if state.filling else None,
    }
