"""One wording for every value that is refused: which field, where it stood, what was expected of it."""

from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from attrs import frozen
from litestar.enums import ParamType
from litestar.params import KwargDefinition, ParameterKwarg
from litestar.typing import FieldDefinition

from imgproc_domain.errors import InvalidValue

Place = Literal["body", "query", "path", "header", "cookie"]

_PLACES: Final[Mapping[ParamType, Place]] = {
    ParamType.QUERY: "query",
    ParamType.PATH: "path",
    ParamType.HEADER: "header",
    ParamType.COOKIE: "cookie",
}


@frozen
class Refusal:
    """A field, or without a name the whole of its place, and what was expected there."""

    place: Place
    field: str | None
    expected: str

    def __str__(self) -> str:
        subject = f"{self.field} in the {self.place}" if self.field else f"the {self.place}"
        return f"{subject}: expected {self.expected}"

    @property
    def details(self) -> dict[str, str]:
        named = {"field": self.field} if self.field else {}
        return {"in": self.place, **named, "expected": self.expected}


def refused(*found: Refusal) -> InvalidValue:
    """Return the error of these refusals; each is also in ``details.refused``."""
    return InvalidValue("; ".join(map(str, found)), refused=[refusal.details for refusal in found])


def parameter_name(definition: FieldDefinition) -> str:
    """Return the name by which a client knows a handler's parameter."""
    kwarg = definition.kwarg_definition
    return (kwarg.name if isinstance(kwarg, ParameterKwarg) else None) or definition.name


def parameter_refused(definition: FieldDefinition) -> Refusal:
    """Return the refusal of a value that does not fit a handler's parameter."""
    kwarg = definition.kwarg_definition
    if definition.name == "data" or not isinstance(kwarg, ParameterKwarg):
        return Refusal("body", None, "a JSON object")
    return Refusal(_PLACES[kwarg.param_type], parameter_name(definition), expectation(definition.annotation, kwarg))


def expectation(annotation: Any, bounds: KwargDefinition | None = None) -> str:
    """Return in words what a type, with its bounds, takes."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return expectation(arguments[0], next((a for a in arguments[1:] if isinstance(a, KwargDefinition)), bounds))
    if origin in (Union, UnionType):
        return " or ".join(expectation(argument, bounds) for argument in arguments if argument is not NoneType)
    if origin is Literal:
        return _one_of(arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _one_of([member.value for member in annotation])
    return _scalar(annotation, bounds)


def _one_of(values: Any) -> str:
    shown = [str(value) for value in values]
    return shown[0] if len(shown) == 1 else f"one of {', '.join(shown)}"


def _scalar(kind: Any, bounds: KwargDefinition | None) -> str:
    if kind is str:
        longest = bounds.max_length if bounds else None
        return f"text of at most {longest} characters" if longest else "text"
    nouns = {int: "a whole number", float: "a number", bool: "true or false"}
    noun = nouns.get(kind, "a value of another kind")
    if bounds and bounds.ge is not None and bounds.le is not None:
        return f"{noun} from {bounds.ge} to {bounds.le}"
    return noun
