"""The operation policies that settings can name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.policy import AllowAllPolicy, UnavailablePolicy
from imgproc_adapters.policy.http import HttpPolicy
from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_app.settings import Settings
from imgproc_domain.policy import Operation
from imgproc_domain.ports.policy import OperationPolicy


@asynccontextmanager
async def named_policy(settings: Settings, engine: AsyncEngine) -> AsyncIterator[OperationPolicy]:
    """Open the policy that the settings name for the length of the block.

    Raises:
        InvalidValue: the policy behind HTTP has no usable URL, or httpx is not installed.
    """
    match settings.policy:
        case "allow_all":
            yield AllowAllPolicy()
        case "quota":
            # uploads and deletions are limited where a row says so; what may bill money has a limit without one
            quota = Quota(settings.quota_units, Period(settings.quota_period))
            yield QuotaPolicy(engine, {Operation.ANALYSIS_AGENT: quota, Operation.REVERSE_IMAGE_SEARCH: quota})
        case "http":
            policy = HttpPolicy(settings.policy_url or "", settings.policy_token, settings.policy_seconds)
            try:
                yield policy
            finally:
                await policy.close()
        case _:
            yield UnavailablePolicy()
