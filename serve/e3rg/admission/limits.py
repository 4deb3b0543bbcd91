"""Limits as people write them: in profiles, on the command line, in the admin API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from e3rg.admission.contracts import UNITS, Limits, Period, Priority

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class LimitsModel(BaseModel):
    """The fields of contracts.Limits that are set; what is not set has the system's default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    requests_per_minute: Annotated[
        Count | None, Field(description="requests in a minute; 0 allows none, null sets no limit")
    ] = None
    tokens_per_minute: Annotated[
        Count | None, Field(description="prompt and completion tokens in a minute, as estimated")
    ] = None
    concurrent_turns: Annotated[Count | None, Field(description="turns and calls at once")] = None
    concurrent_sessions: Annotated[Count | None, Field(description="realtime sessions at once")] = (
        None
    )
    priority: Annotated[
        str, Field(pattern="^(interactive|standard|batch)$", description="class of its requests")
    ] = "interactive"
    weight: Annotated[
        float,
        Field(ge=0.01, le=1000, allow_inf_nan=False, strict=False, description="share of capacity"),
    ] = 1.0
    quota: Annotated[
        dict[str, Annotated[int, Field(ge=0, le=2**53)]],
        Field(description=f"most that is spent in a period, by unit: {', '.join(UNITS)}"),
    ] = Field(default_factory=dict)
    period: Annotated[
        str, Field(pattern="^(day|month)$", description="the quota's period, in UTC")
    ] = "month"

    @field_validator("quota")
    @classmethod
    def _known_units(cls, quota: dict[str, int]) -> dict[str, int]:
        unknown = sorted(set(quota) - set(UNITS))
        if unknown:
            raise ValueError(f"unknown unit {unknown[0]!r}: one of {', '.join(UNITS)}")
        return quota


def limits_from(*layers: Mapping[str, Any]) -> Limits:
    """Limits from settings; later layers go over earlier ones, field by field.

    Raises:
        ValueError: naming the first field that is wrong, and why.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= layer
    try:
        model = LimitsModel.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}") from error
    period: Period = "day" if model.period == "day" else "month"
    return Limits(
        model.requests_per_minute,
        model.tokens_per_minute,
        model.concurrent_turns,
        model.concurrent_sessions,
        Priority[model.priority.upper()],
        model.weight,
        dict(model.quota),
        period,
    )
