"""Every fence of the code that `make mutants` removes, and those that a second one repeats."""

from typing import Final

from mutants.fences import agent, claims, decisions, flow, handover, search, settling, statements, stores, workers
from mutants.kinds import Mutant, Wall

MUTANTS: Final[tuple[Mutant, ...]] = (
    *claims.MUTANTS,
    *decisions.MUTANTS,
    *agent.MUTANTS,
    *settling.MUTANTS,
    *flow.MUTANTS,
    *handover.MUTANTS,
    *workers.MUTANTS,
    *statements.MUTANTS,
    *stores.MUTANTS,
    *search.MUTANTS,
)
WALLS: Final[tuple[Wall, ...]] = (*flow.WALLS, *statements.WALLS, *search.WALLS)
EVERY: Final[tuple[Mutant | Wall, ...]] = (*MUTANTS, *WALLS)
