"""Here every database is behind pgbouncer, whatever the other tests do."""

import pytest


@pytest.fixture(scope="session")
def pooled() -> bool:
    return True
