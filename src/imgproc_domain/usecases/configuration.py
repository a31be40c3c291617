"""Which processing configuration is in force: the one of the deployment started last, for as long as it is alive.

Everything that decides (submit, reconcile, settle) decides with the configuration in force; a model is called only by
a process whose own it is. So two deployments at once never renew each other's jobs in turn: one is superseded, takes
nothing, and is in force again when the other is gone.
"""

from imgproc_domain.config import ProcessingConfig
from imgproc_domain.scope import Scope
from imgproc_domain.usecases.deployment import Deployment


async def take_over(deployment: Deployment, scope: Scope) -> None:
    """Put this deployment's configuration in force: for a worker that starts. The scope is only a way in."""
    async with deployment.uow.begin(scope) as tx:
        await tx.configuration.take_over(deployment.config, deployment.limits.configuration_lease)


async def keep(deployment: Deployment, scope: Scope) -> bool:
    """Say that this deployment is alive; returns whether its configuration is in force now, else it is superseded.

    To be called several times in a `Limits.configuration_lease`.
    """
    async with deployment.uow.begin(scope) as tx:
        return await tx.configuration.keep(deployment.config, deployment.limits.configuration_lease)


async def configuration_in_force(deployment: Deployment, scope: Scope) -> ProcessingConfig:
    """Return what jobs are opened and products are judged under; without an announcement the deployment's own."""
    async with deployment.uow.begin(scope) as tx:
        return await deployment.decides_with(tx)
