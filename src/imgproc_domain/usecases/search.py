"""Find pictures by what they mean."""

from attrs import frozen

from imgproc_domain.errors import CacheNotReady, ModelNotConfigured
from imgproc_domain.migration import SearchState
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.search import Answer, Coverage, Query, rank
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.vector import Vector


@frozen
class SearchStatus:
    """What a scope's searches read, and how much of the scope they can find."""

    state: SearchState
    space_id: str
    coverage: Coverage


async def search(deployment: Deployment, scope: Scope, query: Query) -> Answer:
    """Answer a query from one source, decided under the scope's epoch in the reading transaction.

    Raises:
        CacheNotReady: no picture of the scope can be found yet.
        ModelNotConfigured: the text model is missing or failed.
    """
    vector = await deployment.text.embed_query(query.text)
    if not isinstance(vector, Vector):
        raise ModelNotConfigured(vector.diagnosis.message, code=vector.diagnosis.code)
    async with deployment.uow.begin(scope) as tx:
        state = await tx.search.state()
        coverage = await _coverage(tx, deployment)
        if coverage.searchable == 0:
            raise CacheNotReady("no picture of this library can be found yet", total=coverage.total)
        neighbours = await tx.search.nearest(deployment.text.space.id, vector, query.n_results)
    return Answer(state.source, state.epoch, rank(neighbours, query), coverage)


async def search_status(deployment: Deployment, scope: Scope) -> SearchStatus:
    async with deployment.uow.begin(scope) as tx:
        return SearchStatus(await tx.search.state(), deployment.text.space.id, await _coverage(tx, deployment))


async def _coverage(tx: Transaction, deployment: Deployment) -> Coverage:
    return Coverage(await tx.search.searchable(deployment.text.space.id), await tx.memes.count())
