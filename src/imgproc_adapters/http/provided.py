"""What the router hands to its handlers: parameters of these types are filled in by their names."""

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from imgproc_adapters.http.limits import HttpLimits
from imgproc_adapters.http.ready import Readiness
from imgproc_adapters.http.thumbnails import Thumbnails
from imgproc_domain.usecases.deployment import Deployment

Served = NamedDependency[SkipValidation[Deployment]]
"""A parameter named ``deployment``."""

Within = NamedDependency[SkipValidation[HttpLimits]]
"""A parameter named ``limits``."""

Ready = NamedDependency[SkipValidation[Readiness]]
"""A parameter named ``readiness``."""

Small = NamedDependency[SkipValidation[Thumbnails]]
"""A parameter named ``thumbnails``."""
