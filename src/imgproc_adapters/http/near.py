"""Near duplicates of what was just uploaded: told if they are known in time, and never in the way."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.scope import Scope
from imgproc_domain.similar import Match
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.similar import near_duplicates

_log = logging.getLogger(__name__)

Found = Mapping[MemeId, Sequence[Match]]


async def known_in_time(deployment: Deployment, scope: Scope, memes: Sequence[Meme]) -> Found:
    """Return the near duplicates of each picture that was looked at in time; never raises an error of its own.

    The pictures are taken in already, each with its job. A call of the model that is not done in time is left to
    `Questions`, which bounds how many there are.
    """
    found: dict[MemeId, Sequence[Match]] = {}
    within = deployment.limits.near_within.total_seconds()
    if not memes or within <= 0:
        return found
    try:
        async with asyncio.timeout(within), aclosing(near_duplicates(deployment, scope, memes)) as pictures:
            async for meme_id, matches in pictures:
                found[meme_id] = matches  # noqa: PERF403 - what was found must be there when the time is over
    except TimeoutError:
        _log.debug("near duplicates of %s of %s uploads are not known in time", len(memes) - len(found), len(memes))
    except Exception as error:  # noqa: BLE001 - whatever it is, the upload is done and must be answered
        _log.warning("near duplicates of an upload remain unknown: %s", type(error).__name__)
    return found
