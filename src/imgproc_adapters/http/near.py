"""Near duplicates of what was just uploaded: told if they are known in time, and never in the way."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final

from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.scope import Scope
from imgproc_domain.similar import Match
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.similar import near_duplicates

_AT_ONCE: Final = 16

_log = logging.getLogger(__name__)

Found = Mapping[MemeId, Sequence[Match]]


class Lookout:
    """Looks at pictures that are taken in already, each with its job.

    A call of the model that is not done in time is not cancelled, which would cost a local model its process: it ends
    by itself and nobody hears of it. So few are under way at once that they cannot pile up before a model that hangs.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._looking: set[asyncio.Task[None]] = set()

    async def of(self, scope: Scope, memes: Sequence[Meme]) -> Found:
        """Return the near duplicates of each picture that was looked at in time; never raises an error of its own."""
        within = self._deployment.limits.near_within.total_seconds()
        if not memes or within <= 0 or len(self._looking) >= _AT_ONCE:
            return {}
        found: dict[MemeId, Sequence[Match]] = {}
        give_up = asyncio.get_running_loop().time() + within
        looking = asyncio.create_task(self._look(scope, memes, found, give_up))
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)
        await asyncio.wait([looking], timeout=within)
        return dict(found)

    async def _look(
        self, scope: Scope, memes: Sequence[Meme], found: dict[MemeId, Sequence[Match]], give_up: float
    ) -> None:
        try:
            async with aclosing(near_duplicates(self._deployment, scope, memes)) as pictures:
                async for meme_id, matches in pictures:
                    found[meme_id] = matches
                    if asyncio.get_running_loop().time() > give_up:
                        return
        except Exception as error:  # noqa: BLE001 - whatever it is, the upload is done and must be answered
            _log.warning("near duplicates of an upload remain unknown: %s", type(error).__name__)
