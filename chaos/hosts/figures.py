"""What the history says of the hosts: who did how much, who took over what, and what came too late."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import frozen

from chaos import history
from chaos.history import Change
from imgproc_domain.task import TaskStatus


@frozen
class Moments:
    """When what happened, by the database's clock in seconds."""

    warm: float
    slow: float
    cut: float
    mended: float
    end: float


@frozen
class Takeover:
    """What became of the tasks that a host held when it was cut off.

    ``seconds`` are from the cut to each one's revocation by another host; ``landed`` counts those that the host itself
    ended after its lease had run out, and ``kept`` those that it ended before.
    """

    held: int
    seconds: Sequence[float]
    kept: int
    landed: int

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def longest(self) -> float | None:
        return max(self.seconds, default=None)


def host_of(writer: str) -> str:
    """Return the host of a process, which is called HOST.NUMBER."""
    return writer.partition(".")[0]


def done(changes: Sequence[Change], since: float, until: float) -> Mapping[str, int]:
    """Return how many tasks each host brought to success in a stretch of time."""
    return Counter(
        host_of(change.writer)
        for change in changes
        if change.kind == history.TASK and change.state == TaskStatus.SUCCEEDED and since <= change.at < until
    )


def rate(changes: Sequence[Change], hosts: Sequence[str], since: float, until: float) -> float:
    """Return tasks a second of these hosts together."""
    counts = done(changes, since, until)
    return sum(counts.get(host, 0) for host in hosts) / max(until - since, 1e-9)


def takeover(changes: Sequence[Change], host: str, cut: float, lease: float) -> Takeover:
    """Follow the tasks that ``host`` held at the moment of the cut to the end of those claims."""
    held: dict[str, Change] = {}
    ends: dict[str, Change] = {}
    for change in (each for each in changes if each.kind == history.TASK):
        if change.at < cut:
            if change.state == TaskStatus.RUNNING and host_of(change.writer) == host:
                held[change.key] = change
            else:
                held.pop(change.key, None)
        elif change.key in held:
            ends.setdefault(change.key, change)
    own = [end for end in ends.values() if host_of(end.writer) == host]
    return Takeover(
        held=len(held),
        seconds=sorted(end.at - cut for end in ends.values() if host_of(end.writer) != host),
        kept=sum(end.at < cut + lease for end in own),
        landed=sum(end.at >= cut + lease for end in own),
    )


def written(changes: Sequence[Change], host: str, since: float, until: float) -> int:
    """Return how many changes of any kind came from a host in a stretch of time."""
    return sum(host_of(change.writer) == host and since <= change.at < until for change in changes)
