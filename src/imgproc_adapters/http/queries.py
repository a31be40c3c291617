"""What every query must be before a handler sees it: known names, once each, and nothing missing."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from litestar import Request
from litestar.params import QueryParameter
from litestar.typing import FieldDefinition

from imgproc_adapters.http.errors import UnknownField
from imgproc_adapters.http.refusals import Refusal, parameter_name, parameter_refused, refused

ANY_QUERY: Final = "imgproc_any_query"
"""The handler option of routes that answer the same whatever the query."""


async def check_query(request: Request[Any, Any, Any]) -> None:
    """Refuse a query that the handler would misread: a mistyped name must never mean the default.

    Raises:
        UnknownField: a name that the operation does not have.
        InvalidValue: a name given twice, left out though required, or with a NUL, which no database takes.
    """
    handler = request.route_handler
    if handler.opt.get(ANY_QUERY):
        return
    known = _known(handler.parsed_fn_signature.parameters)
    given = list(request.query_params.multi_items())
    unknown = {name for name, _ in given} - set(known)
    if unknown:
        raise UnknownField.named("query", unknown, known)
    found = list(_refusals(known, given))
    if found:
        raise refused(*found)


def _known(parameters: Mapping[str, FieldDefinition]) -> dict[str, FieldDefinition]:
    return {
        parameter_name(definition): definition
        for definition in parameters.values()
        if isinstance(definition.kwarg_definition, QueryParameter)
    }


def _refusals(known: Mapping[str, FieldDefinition], given: list[tuple[str, str]]) -> Iterator[Refusal]:
    times = Counter(name for name, _ in given)
    for name, definition in known.items():
        if times[name] > 1:
            yield Refusal("query", name, "one value, not several")
        if not times[name] and definition.is_required:
            yield parameter_refused(definition)
    for name, value in given:
        if "\0" in value:
            yield Refusal("query", name, "text without NUL characters")
