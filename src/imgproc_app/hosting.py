"""imgproc inside another application: the host brings its tenants, its permissions and, if it likes, its models."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from attrs import frozen
from litestar import Router

from imgproc_adapters.http import Connection, Operators, ScopeResolver, Unauthenticated, create_router
from imgproc_adapters.policy import UnavailablePolicy
from imgproc_app.lifecycle import Parts, Runtime, open_runtime, working
from imgproc_app.readiness import Readiness
from imgproc_app.settings import Settings
from imgproc_domain.ports.models import Agent, Decoder, TextModel, VisualModel
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.usecases.deployment import Deployment


class NobodyResolver:
    """The resolver of a host that gave none: every request is refused. There is no fallback to a local scope."""

    async def resolve(self, connection: Connection) -> Scope:
        raise Unauthenticated(f"no scope resolver is configured for {connection.url.path}")


@frozen
class Application:
    """An opened imgproc: ``router`` is mounted, `working` run beside it, and use cases are called on ``deployment``."""

    runtime: Runtime
    router: Router

    @property
    def deployment(self) -> Deployment:
        return self.runtime.deployment

    def working(self) -> AbstractAsyncContextManager[None]:
        """Run the workers in this process for the length of the block."""
        return working(self.runtime)


@asynccontextmanager
async def build(
    settings: Settings,
    *,
    scope_resolver: ScopeResolver | None = None,
    operation_policy: OperationPolicy | None = None,
    decoder: Decoder | None = None,
    visual: VisualModel | None = None,
    agent: Agent | None = None,
    text: TextModel | None = None,
    more_text: Sequence[TextModel] = (),
    operators: Operators = False,
    path: str = "/",
) -> AsyncIterator[Application]:
    """Open imgproc for the length of the block; ``path`` is where the host mounts the router.

    What decides about tenants and permissions fails closed where it is left out: without a resolver every request is
    refused, without a policy every upload, deletion and agent stage is denied. Models that are left out are the
    local ones. ``more_text`` are further text models, so that a scope stays searchable in the space of one while
    another one's is filled. ``operators`` says who may use the routes below ``/maintenance``: see `create_router`.

    Raises:
        as `lifecycle.open_runtime`.
    """
    policy = operation_policy or UnavailablePolicy()
    async with open_runtime(settings, Parts(policy, decoder, visual, agent, text, more_text)) as runtime:
        readiness = Readiness(runtime)
        try:
            resolver = scope_resolver or NobodyResolver()
            router = create_router(runtime.deployment, resolver, readiness, path=path, operators=operators)
            yield Application(runtime, router)
        finally:
            await readiness.close()
