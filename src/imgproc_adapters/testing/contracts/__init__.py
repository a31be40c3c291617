"""One suite per port. Subclass it where pytest collects, and give it its fixtures.

```python
class TestClaims(ClaimStoreContract):
    @pytest.fixture
    def world(self) -> World:
        return memory_world()
```

Suites over the database need ``world`` (`imgproc_adapters.testing.world.World`), new and empty for each test; the
others say in their docstrings what they need.
"""

import pytest

_MODULES = (
    "agent",
    "attempts",
    "bell",
    "blobs",
    "claims",
    "configuration",
    "contexts",
    "dispatch",
    "evidence",
    "generations",
    "grants",
    "handover",
    "heartbeat",
    "job_claims",
    "jobs",
    "memes",
    "migration",
    "policy",
    "products",
    "retention",
    "scopes",
    "search",
    "similar",
    "slots",
    "succession",
    "tasks",
    "text_model",
    "undecided",
    "unit_of_work",
    "visual_model",
)
# before the first of them is imported: a failed assertion then shows the values it compared
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from imgproc_adapters.testing.contracts.agent import AgentContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.attempts import AttemptStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.bell import BellContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.blobs import BlobStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.claims import ClaimStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.configuration import ConfigurationStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.contexts import ContextStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.dispatch import DispatchContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.evidence import EvidenceStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.generations import GenerationStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.grants import GrantStoreContract, ReleaseOutboxContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.handover import HandoverContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.heartbeat import HeartbeatContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.job_claims import JobClaimStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.jobs import JobStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.memes import MemeStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.migration import MigrationStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.policy import ImmediatePolicyContract, OperationPolicyContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.products import ProductStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.retention import RetentionStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.scopes import ScopeContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.search import SearchStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.similar import SimilarStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.slots import SlotStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.succession import SuccessionContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.tasks import TaskStoreContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.text_model import TextModelContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.undecided import UndecidedContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.unit_of_work import UnitOfWorkContract  # noqa: E402 - after the registration
from imgproc_adapters.testing.contracts.visual_model import VisualModelContract  # noqa: E402 - after the registration

__all__ = [
    "AgentContract",
    "AttemptStoreContract",
    "BellContract",
    "BlobStoreContract",
    "ClaimStoreContract",
    "ConfigurationStoreContract",
    "ContextStoreContract",
    "DispatchContract",
    "EvidenceStoreContract",
    "GenerationStoreContract",
    "GrantStoreContract",
    "HandoverContract",
    "HeartbeatContract",
    "ImmediatePolicyContract",
    "JobClaimStoreContract",
    "JobStoreContract",
    "MemeStoreContract",
    "MigrationStoreContract",
    "OperationPolicyContract",
    "ProductStoreContract",
    "ReleaseOutboxContract",
    "RetentionStoreContract",
    "ScopeContract",
    "SearchStoreContract",
    "SimilarStoreContract",
    "SlotStoreContract",
    "SuccessionContract",
    "TaskStoreContract",
    "TextModelContract",
    "UndecidedContract",
    "UnitOfWorkContract",
    "VisualModelContract",
]
