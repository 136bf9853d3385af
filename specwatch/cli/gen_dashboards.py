"""``specwatch gen-dashboards``: Grafana dashboards, and the file by which Grafana finds them."""

from __future__ import annotations

from pathlib import Path

import click

from specwatch.generate.dashboards import DATASOURCE_TYPES, Settings, dashboard_files
from specwatch.generate.files import write_or_check
from specwatch.signals.speedup import ASSUMED, given


@click.command(name="gen-dashboards", context_settings={"show_default": True})
@click.option("--output", type=click.Path(path_type=Path), default=Path("dashboards"), help="Folder to write into.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the folder holds anything else.")
@click.option("--job", metavar="NAME", help="Prometheus job that is chosen at first; all jobs without it.")
@click.option("--prefix", metavar="TEXT", default="", help="Put before each dashboard's title and uid.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Tag each dashboard; may be repeated.")
@click.option("--folder", metavar="NAME", default="specwatch", help="Grafana's folder for them.")
@click.option(
    "--datasource-type",
    type=click.Choice(DATASOURCE_TYPES),
    default=DATASOURCE_TYPES[0],
    help="Grafana's name for the kind of data source that the dashboards ask.",
)
@click.option(
    "--draft-cost",
    metavar="C",
    type=click.FloatRange(min=0, min_open=True),
    help="Time of a draft token ÷ a plain target step, if you know it.",
)
def command(
    output: Path,
    check: bool,
    job: str | None,
    prefix: str,
    tags: tuple[str, ...],
    folder: str,
    datasource_type: str,
    draft_cost: float | None,
) -> None:
    """Write four Grafana dashboards, made from the catalogues: fleet, server, drift and speedup.

    They read vLLM's own metrics from any Prometheus that scrapes the servers, and show drift, diagnosis and calibrated
    speedup where that Prometheus scrapes the sidecar too.
    """
    settings = Settings(
        job=job,
        prefix=prefix,
        tags=tags,
        folder=folder,
        datasource_type=datasource_type,
        cost=ASSUMED if draft_cost is None else given(draft_cost),
    )
    write_or_check(output, dashboard_files(settings), check=check, say=click.echo)
