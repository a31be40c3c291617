"""Descriptions and provenances as JSON. Reading one cleans and bounds it again: what is stored is never trusted."""

from typing import Any, Final

from cattrs import Converter

from imgproc_domain.ids import Sha256


def _converter() -> Converter:
    converter = Converter(unstruct_collection_overrides={tuple: list})
    converter.register_unstructure_hook(Sha256, lambda digest: digest.hex)
    converter.register_structure_hook(Sha256, _digest)
    return converter


def _digest(raw: Any, _type: type[Sha256]) -> Sha256:
    return Sha256.parse(raw)


CONVERTER: Final = _converter()
