"""``specwatch gen-dashboards``: Grafana dashboards, and the file by which Grafana finds them."""

from __future__ import annotations

from pathlib import Path

import click

from specwatch.errors import SpecwatchError
from specwatch.generate.dashboards import Settings, dashboard_files
from specwatch.generate.files import differing, write_all
from specwatch.signals.speedup import ASSUMED, given


@click.command(name="gen-dashboards")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("dashboards"),
    show_default=True,
    help="Folder to write into.",
)
@click.option("--job", metavar="NAME", help="Prometheus job that is chosen at first; all jobs without it.")
@click.option("--prefix", metavar="TEXT", default="", help="Put before each dashboard's title.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Tag each dashboard; may be repeated.")
@click.option(
    "--draft-cost",
    metavar="C",
    type=click.FloatRange(min=0, min_open=True),
    help="Time of a draft token ÷ a plain target step, if you know it.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail when the folder holds something else.")
def command(
    output: Path, job: str | None, prefix: str, tags: tuple[str, ...], draft_cost: float | None, check: bool
) -> None:
    """Write Grafana dashboards, made from the catalogues of signals and alerts.

    They read vLLM's own metrics from any Prometheus that scrapes the servers, and show drift where that
    Prometheus scrapes the sidecar too.
    """
    cost = ASSUMED if draft_cost is None else given(draft_cost)
    files = dashboard_files(Settings(job=job, prefix=prefix, tags=tags, cost=cost))
    if check:
        stale = differing(output, files)
        if stale:
            raise SpecwatchError(
                f"{output} differs from what the same options generate: {', '.join(stale)}; "
                "run gen-dashboards without --check"
            )
        click.echo(f"{output} is up to date")
        return
    for path in write_all(output, files):
        click.echo(f"wrote {path}")
