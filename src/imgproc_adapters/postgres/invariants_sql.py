"""Every check of the stored rows, in the order of the invariants. Of I12, I16 and I17 no row can show anything."""

from typing import Final

from imgproc_adapters.postgres.invariants_catalog import CATALOG
from imgproc_adapters.postgres.invariants_check import Check
from imgproc_adapters.postgres.invariants_lanes import LANES
from imgproc_adapters.postgres.invariants_library import LIBRARY
from imgproc_adapters.postgres.invariants_permission import PERMISSION
from imgproc_adapters.postgres.invariants_search import SEARCH
from imgproc_adapters.postgres.invariants_work import WORK


def _place(check: Check) -> tuple[bool, int, str]:
    number = check.invariant.removeprefix("I")
    return (not number.isdigit(), int(number) if number.isdigit() else 0, check.invariant)


CHECKS: Final = tuple(sorted((*CATALOG, *WORK, *PERMISSION, *LIBRARY, *SEARCH, *LANES), key=_place))
