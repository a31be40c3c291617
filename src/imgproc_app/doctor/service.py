"""Who may do what over HTTP: whether ``serve`` has the routes for operators, and why."""

from imgproc_app.doctor.check import Check, ok, warning
from imgproc_app.settings import Settings, names_in

_NAME = "operator routes"
_FIX = "set IMGPROC_OPERATOR_API=0, unless nobody but operators can reach the service"


def examine_service(settings: Settings) -> Check:
    """Say whether ``serve`` has the routes below ``/maintenance`` with these settings, and because of which.

    A warning where it has them and others than those who sit at this machine are expected.
    """
    if not settings.operators:
        because = "IMGPROC_OPERATOR_API is 0" if settings.operator_api is False else _reached_by(settings)
        return ok(_NAME, f"'imgproc serve' has none below /maintenance, because {because}")
    if not settings.only_here:
        found = f"'imgproc serve' has those below /maintenance for everybody who can call it: {_reached_by(settings)}"
        return warning(_NAME, f"{found}, and IMGPROC_OPERATOR_API is 1", _FIX)
    because = f"it listens on {settings.host} alone, for whoever sits at this machine"
    if settings.operator_api:
        because = "IMGPROC_OPERATOR_API is 1"
    behind = "set IMGPROC_OPERATOR_API=0 if a proxy passes on what others ask"
    return ok(_NAME, f"'imgproc serve' has those below /maintenance, because {because}; {behind}")


def _reached_by(settings: Settings) -> str:
    if names := names_in(settings.hosts):
        return f"IMGPROC_HOSTS lets it be called as {', '.join(names)}"
    return f"IMGPROC_HOST is {settings.host}, which others may reach"
