"""``imgproc doctor``: check that everything is there."""

from typing import Final

import click

from imgproc_app.cli.output import one_line
from imgproc_app.cli.session import Session, run
from imgproc_app.doctor import Check, Verdict, examine

_MARK: Final = {
    Verdict.OK: ("ok", "green"),
    Verdict.WARNING: ("warn", "yellow"),
    Verdict.FAILED: ("FAIL", "bold red"),
    Verdict.SKIPPED: ("-", "dim"),
}
_LONGEST: Final = 400


@click.command("doctor")
@click.pass_obj
def command(session: Session) -> int:
    """Check Python, packages, disk, database and models, and say how to fix what is wrong.

    Starts the embedded database if there is no DSN, and really runs each model once. Exit code 1 if a check failed.
    """
    return run(lambda: _examine(session))


async def _examine(session: Session) -> int:
    checks = []
    async for check in examine(session.settings()):
        checks.append(check)
        _print(session, check)
    wrong = sum(check.verdict is Verdict.FAILED for check in checks)
    if session.output.as_json:
        listed = [{"check": c.name, "verdict": c.verdict.value, "found": c.found, "fix": c.fix} for c in checks]
        session.output.document({"ok": wrong == 0, "checks": listed})
    session.output.say(_summary([check.verdict for check in checks]))
    return int(wrong > 0)


def _summary(verdicts: list[Verdict]) -> str:
    wrong, skipped, warned = map(verdicts.count, (Verdict.FAILED, Verdict.SKIPPED, Verdict.WARNING))
    if not wrong:
        return "everything is there" + (f"; warnings: {warned}" if warned else "")
    return f"{wrong} of {len(verdicts)} checks failed" + (f", {skipped} skipped" if skipped else "")


def _print(session: Session, check: Check) -> None:
    if session.output.as_json:
        return
    mark, style = _MARK[check.verdict]
    session.output.out.print(f"{mark:>4}", style=style, end="  ")
    session.output.out.print(f"{check.name:<17} {one_line(check.found, _LONGEST)}", soft_wrap=True)
    if check.fix:
        session.output.out.print(f"{'':>6}to fix: {check.fix}", style="cyan", soft_wrap=True)
