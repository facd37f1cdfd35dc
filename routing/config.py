"""Configuration: one YAML file, every key known, every value checked before anything starts.

Law: a key that is not known is an error that names the nearest one. Environment variables override the file:
SLUICE_TRIGGER, or SLUICE_NOTIFICATIONS__LAYOUT for a nested key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from routing.errors import ConfigError, nearest
from routing.filters import Limits

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


def _duration(value: object) -> object:
    """`7 days`, `90 seconds` … as a timedelta; anything else is left to pydantic."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", value) if isinstance(value, str) else None
    if match is None:
        return value
    if match[2] not in _UNITS:
        raise ValueError(f"'{value}' is not a duration; write for example '7 days' (units: {', '.join(_UNITS)})")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


Duration = Annotated[timedelta, BeforeValidator(_duration), Field(ge=timedelta())]
Format = Literal["json", "csv", "parquet", "delta", "kafka", "rate"]
FILES = ("json", "csv", "parquet")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Source(_Part):
    """One stream of events, and which of its columns are the id, the publisher and the time."""

    format: Format
    path: str | None = None
    table: str | None = None
    ddl: str | None = Field(default=None, alias="schema", description="the schema as DDL; omitted, it is inferred")
    options: dict[str, str | int | float | bool] = {}
    id: str
    publisher: str | None = None
    publisher_name: str | None = Field(default=None, description="one publisher for the whole source")
    time: str | None = Field(default=None, description="omitted, the batch's clock is the time of its events")
    order: str | None = Field(default=None, description="breaks ties between events of one time")
    value: Literal["json"] | None = Field(default=None, description="Kafka: the value is JSON, its fields the columns")

    @model_validator(mode="after")
    def _complete(self) -> Source:
        if (self.publisher is None) == (self.publisher_name is None):
            raise ValueError("give either publisher (a column) or publisher_name (one name for the whole source)")
        if self.format in FILES and not self.path:
            raise ValueError(f"a {self.format} source needs a path")
        if self.format == "delta" and not (self.path or self.table):
            raise ValueError("a delta source needs a path or a table")
        return self


class Notifications(_Part):
    """How notifications are laid out and what they carry."""

    layout: Literal["consumer", "bucket"] = "consumer"
    buckets: int = Field(default=32, ge=1, le=4096)
    payload: Literal["embed", "reference"] = "embed"


class Duplicates(_Part):
    """When an event counts as one already seen."""

    key: Literal["publisher_and_id", "id"] = "publisher_and_id"
    horizon: Duration = timedelta(days=7)
    kept: int = Field(default=1000, ge=0, description="duplicates kept whole per batch; the rest are counted")


class Scoping(_Part):
    """Where whoever is in no scope is, and how many versions one event may have."""

    unscoped: Literal["world", "isolated"] = "world"
    versions: int = Field(default=64, ge=1, le=64)


class FilterLimits(_Part):
    """How large a filter may be."""

    text_bytes: int = Field(default=4096, ge=1)
    depth: int = Field(default=32, ge=1, le=64)
    nodes: int = Field(default=256, ge=1)
    in_literals: int = Field(default=1000, ge=1)

    def limits(self) -> Limits:
        """The same, as the parser takes it."""
        return Limits(**self.model_dump())


class Config(BaseSettings):
    """Everything that one engine is told.

    >>> Config(database="feeds").warehouse
    '.sluice/warehouse'
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_prefix="SLUICE_", env_nested_delimiter="__")

    catalog: str = "spark_catalog"
    database: str = Field(default="sluice", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    warehouse: str | None = Field(default=".sluice/warehouse", description="null: the catalog decides where tables lie")
    checkpoints: str | None = Field(default=None, description="omitted: inside the warehouse")
    sources: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Source] = {}
    trigger: str = Field(default="once", description="once, continuous, or an interval such as '10 seconds'")
    notifications: Notifications = Notifications()
    journal: Literal["full", "keys", "off"] = "full"
    duplicates: Duplicates = Duplicates()
    filters: FilterLimits = FilterLimits()
    scopes: Scoping = Scoping()
    retention: Duration = timedelta(days=30)
    spark: dict[str, str | int | float | bool] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        if self.warehouse is None and self.checkpoints is None:
            raise ValueError("without a warehouse path, say where checkpoints lie: checkpoints: <path>")
        if self.journal == "off" and self.duplicates.horizon:
            raise ValueError("journal: off forgets every event id; also set duplicates: {horizon: 0 days}")
        if self.journal != "full" and self.notifications.payload == "reference":
            raise ValueError("payload: reference reads events from the journal; it needs journal: full")
        interval = isinstance(_duration(self.trigger), timedelta)
        if not interval and self.trigger not in ("once", "continuous"):
            raise ValueError(f"trigger: '{self.trigger}' is none of once, continuous, or an interval like '10 seconds'")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file, which arrives as arguments."""
        return env_settings, init_settings


def load(given: Config | Mapping[str, Any] | str | Path | None = None) -> Config:
    """A checked configuration from a file, a mapping, or nothing at all (the defaults).

    >>> load({"databse": "feeds"})
    Traceback (most recent call last):
    ...
    routing.errors.ConfigError: configuration: 'databse' is not a known key. Did you mean 'database'?
    """
    if isinstance(given, Config):
        return given
    where = str(given) if isinstance(given, str | Path) else "configuration"
    values = _read(Path(given)) if isinstance(given, str | Path) else dict(given or {})
    try:
        return Config(**values)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {_problem(item)}" for item in error.errors())) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = [str(p) for p in sorted(path.parent.glob("*.yaml"))] if path.parent.is_dir() else []
        raise ConfigError(
            f"{path}: no such file. {'There are: ' + ', '.join(known) if known else ''}".strip()
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ConfigError(f"{path}: expected keys and values at the top, found {type(values).__name__}")
    return values


def _problem(item: Any) -> str:
    place = ".".join(str(part) for part in item["loc"])
    if item["type"] != "extra_forbidden":
        return (
            f"{place}: {item['msg'].removeprefix('Value error, ')}"
            if place
            else item["msg"].removeprefix("Value error, ")
        )
    close = nearest(str(item["loc"][-1]), _keys_at(item["loc"][:-1]))
    return f"'{place}' is not a known key." + (f" Did you mean '{close}'?" if close else "")


def _keys_at(location: tuple[Any, ...]) -> list[str]:
    """The keys known at a place of the configuration: follow the models down."""
    model: Any = Config
    for step in location:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            model = get_args(model)[1] if get_args(model) else None  # dict[str, Source]: step is the name of one
            continue
        fields = {info.alias or name: info for name, info in model.model_fields.items()}
        model = fields[step].annotation if step in fields else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return []
    return [info.alias or name for name, info in model.model_fields.items()]


def conf_directory() -> Path:
    """Where the shipped configuration lies: inside the installed package, or at the top of a checkout."""
    packaged = Path(str(resources.files("routing"))) / "conf"
    return packaged if packaged.is_dir() else packaged.parent.parent / "conf"
