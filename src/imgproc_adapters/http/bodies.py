"""JSON bodies: decoded strictly, into attrs classes, with every refusal named."""

from collections.abc import Generator, Iterator
from typing import Any, Final, Literal, TypeVar

import attrs
import msgspec
from cattrs import BaseValidationError, ClassValidationError, Converter, ForbiddenExtraKeysError
from litestar.dto import AbstractDTO, DTOConfig
from litestar.dto.data_structures import DTOFieldDefinition
from litestar.openapi.spec import Reference, Schema
from litestar.typing import FieldDefinition

from imgproc_adapters.http.errors import UnknownField, UnsupportedBody
from imgproc_adapters.http.refusals import Refusal, expectation, refused
from imgproc_domain.errors import ImgprocError
from imgproc_domain.stage import parse_policy

T = TypeVar("T")

PolicyName = Literal["forbid", "auto"]


def _strict(kind: type[Any], name: str) -> Any:
    def structure(value: Any, _: type[Any]) -> Any:
        # True is an int in Python, not in JSON
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"expected {name}")
        return value

    return structure


def _number(value: Any, _: type[Any]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("expected a number")
    return float(value)


def _policy(value: Any, _: Any) -> str:
    return parse_policy(value).value


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str, _strict(str, "a string"))
    converter.register_structure_hook(int, _strict(int, "a whole number"))
    converter.register_structure_hook(bool, _strict(bool, "true or false"))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook_func(lambda kind: kind == PolicyName, _policy)
    return converter


_CONVERTER: Final = _converter()


def decode(body: bytes, kind: type[T]) -> T:
    """Return a JSON object as an instance of an attrs class; an empty body is an empty object.

    Raises:
        UnknownField: the object has a field that the class does not have.
        InvalidReverseImagePolicy: it names a policy that does not exist.
        InvalidValue: no JSON, no object, a missing field, or a value of another type.
    """
    try:
        raw = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refused(Refusal("body", None, "valid JSON")) from error
    if not isinstance(raw, dict):
        raise refused(Refusal("body", None, "a JSON object"))
    try:
        return _CONVERTER.structure(raw, kind)
    except BaseValidationError as error:
        raise _named(error, kind) from error


def _named(error: BaseValidationError, kind: type[Any]) -> ImgprocError:
    fields = attrs.fields_dict(kind)
    causes = list(_leaves(error))
    extra = {name for cause in causes if isinstance(cause, ForbiddenExtraKeysError) for name in cause.extra_fields}
    if extra:
        return UnknownField.named("body", extra, fields)
    for cause in causes:
        if isinstance(cause, ImgprocError):
            return cause
    return refused(*(Refusal("body", name, expectation(fields[name].type)) for name in _names(error)))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _names(error: BaseValidationError) -> Iterator[str]:
    assert isinstance(error, ClassValidationError), "bodies are flat"
    for _, note in error.group_exceptions()[0]:
        yield note.name


class StrictBody(AbstractDTO[T]):
    """Hands a handler's ``data`` to `decode`, and its class as it is to the OpenAPI document.

    Litestar's transfer models are not used: there is nothing between the body and the class.
    """

    config = DTOConfig()

    def decode_bytes(self, value: bytes) -> T:
        media_type = self.asgi_connection.headers.get("content-type", "").partition(";")[0].strip().lower()
        if value and media_type != "application/json":
            raise UnsupportedBody("the body must be sent as application/json")
        return decode(value, self.model_type)

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        pass

    @classmethod
    def create_openapi_schema(
        cls,
        field_definition: FieldDefinition,
        handler_id: str,  # noqa: ARG003 - the schema is the same everywhere
        schema_creator: Any,
    ) -> Reference | Schema:
        schema: Reference | Schema = schema_creator.for_field_definition(field_definition)
        return schema

    @classmethod
    def generate_field_definitions(
        cls,
        model_type: type[Any],  # noqa: ARG003 - no transfer model, no fields
    ) -> Generator[DTOFieldDefinition, None, None]:
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:  # noqa: ARG003 - as above
        return False
