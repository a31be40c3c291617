"""The scopes that a command works on: those that were named, or all."""

from collections.abc import AsyncGenerator, Sequence

from imgproc_adapters.postgres.scopes import each_scope
from imgproc_app.lifecycle import Runtime
from imgproc_domain.errors import InvalidValue
from imgproc_domain.scope import Scope, parse_scope


def named(scopes: Sequence[str]) -> list[Scope]:
    """Return the scopes that were typed, each once; raises `InvalidValue` for one that cannot be one."""
    return [parse_scope(scope) for scope in dict.fromkeys(scopes)]


async def each_wanted(runtime: Runtime, scopes: Sequence[Scope]) -> AsyncGenerator[Scope, None]:
    """Yield the named scopes, or without a name every one there is; raises `InvalidValue` for one there is not."""
    known = {scope async for scope in each_scope(runtime.engine)} if scopes else set()
    for scope in scopes:
        if scope not in known:
            raise InvalidValue(f"there is no scope {scope}")
    if scopes:
        for scope in scopes:
            yield scope
        return
    async for scope in each_scope(runtime.engine):
        yield scope
