"""Tables of the quota policy that comes with imgproc. Nothing else reads or writes them."""

from typing import Final

from sqlalchemy import BigInteger, Column, Table, Text

from imgproc_adapters.policy.reservation import Period
from imgproc_adapters.postgres.schema import METADATA, belongs_to_scope, check, index, key, one_of, primary, time
from imgproc_domain.policy import Operation

policy_quotas: Final = Table(
    "policy_quotas",
    METADATA,
    key("scope_id"),
    key("operation"),
    key("period"),
    Column("units", BigInteger, nullable=False),
    primary("policy_quotas", "scope_id", "operation", "period"),
    belongs_to_scope("policy_quotas"),
    check("policy_quotas", "operation", f"operation {one_of(Operation)}"),
    check("policy_quotas", "period", f"period {one_of(Period)}"),
    check("policy_quotas", "units", "units >= 0"),
)

# A row without a fingerprint is the tombstone of a key that was released before it was acquired. Whether a row counts
# is a column of its own, so that a commit, which leaves that alone, stays heap-only.
policy_reservations: Final = Table(
    "policy_reservations",
    METADATA,
    key("scope_id"),
    key("operation"),
    key("logical_request_key"),
    Column("fingerprint", Text),
    Column("units", BigInteger, nullable=False),
    time("acquired_at"),
    time("committed_at", nullable=True),
    time("returned_at", nullable=True),
    primary("policy_reservations", "scope_id", "operation", "logical_request_key"),
    belongs_to_scope("policy_reservations"),
    check("policy_reservations", "operation", f"operation {one_of(Operation)}"),
    check("policy_reservations", "units", "units >= 0"),
    check("policy_reservations", "fingerprint", "returned_at IS NOT NULL OR fingerprint IS NOT NULL"),
    check("policy_reservations", "once", "committed_at IS NULL OR returned_at IS NULL"),
    index("policy_reservations", "counted", "scope_id", "operation", "acquired_at", where="returned_at IS NULL"),
    postgresql_with={"fillfactor": 80},
)
