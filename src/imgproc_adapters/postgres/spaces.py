"""The register of embedding spaces: a name stands for one dimension, for ever."""

from collections.abc import Collection
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.arrays import Ints, Texts
from imgproc_adapters.postgres.errors import translated
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import statement
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import InvalidValue

_REGISTER: Final = statement(
    """
    INSERT INTO embedding_spaces (space_id, dimension, created_at)
    SELECT n.*, statement_timestamp() FROM unnest(%(ids)s, %(dimensions)s) AS n
    ON CONFLICT (space_id) DO NOTHING
    """
)
_READ: Final = statement("SELECT space_id, dimension FROM embedding_spaces WHERE space_id = ANY (%(ids)s)")


async def register_spaces(engine: AsyncEngine, spaces: Collection[VectorSpace]) -> None:
    """Remember the spaces of this deployment; to be called once at start-up. Harmless for known ones.

    Raises:
        InvalidValue: a space of this name was first used with another dimension: a changed model needs another name.
        DatabaseUnavailable: the database did not answer.
    """
    wanted = {space.id: space.dimension for space in sorted(spaces, key=lambda space: space.id)}
    async with checked_out(engine, autocommit=True) as connection:
        with translated():
            ids = Texts(wanted)
            await connection.execute(_REGISTER, {"ids": ids, "dimensions": Ints(wanted.values())})
            known = await (await connection.execute(_READ, {"ids": ids})).fetchall()
    for space_id, dimension in known:
        if wanted[space_id] != dimension:
            message = f"the embedding space {space_id} has {dimension} dimensions, not {wanted[space_id]}"
            raise InvalidValue(message + ": give a changed model another space id")
