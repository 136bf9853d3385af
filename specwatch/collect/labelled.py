"""From an address and labels to a target, as Prometheus makes one of them."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from specwatch.collect.groups import LONGEST_LABEL, MOST_LABELS, TargetGroup
from specwatch.collect.relabel import Labels, relabel
from specwatch.collect.targets import LONGEST_NAME, Target
from specwatch.scrape_config import ScrapeConfig

ADDRESS, SCHEME, PATH, PARAM, INSTANCE = "__address__", "__scheme__", "__metrics_path__", "__param_", "instance"
PRIVATE = "__"
"""What labels begin with that are gone after relabelling."""


class NoTarget(ValueError):
    """Labels that name no server; the text says why."""


def labelled_target(address: str, group: TargetGroup, config: ScrapeConfig) -> Target | None:
    """The target after relabelling; None where a rule drops it, NoTarget where nothing can be asked there.

    Its name is its label ``instance``, which is its address unless a rule sets another.
    """
    params = {PARAM + name: values[0] for name, values in config.params.items() if values}
    defaults = {"job": config.job_name, SCHEME: config.scheme, PATH: config.metrics_path, **params}
    labels = relabel({**defaults, **group.labels, ADDRESS: address}, config.relabel_configs)
    if labels is None:
        return None
    shown = {name: value for name, value in labels.items() if not name.startswith(PRIVATE)}
    name = shown.setdefault(INSTANCE, labels.get(ADDRESS, ""))
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise NoTarget(f"its label {INSTANCE} is no name of 1 to {LONGEST_NAME} printable characters")
    if len(shown) > MOST_LABELS or any(len(value) > LONGEST_LABEL for value in shown.values()):
        raise NoTarget(f"more than {MOST_LABELS} labels, or one of more than {LONGEST_LABEL} characters")
    return Target(name, _url(labels, config), shown, config.job_name, group.found_in)


def _url(labels: Labels, config: ScrapeConfig) -> str:
    scheme, address, path = labels.get(SCHEME, ""), labels.get(ADDRESS, ""), labels.get(PATH, "")
    if scheme not in ("http", "https"):
        raise NoTarget(f"its scheme is {scheme[:20]!r}, not http or https")
    if not path.startswith("/") or not path.isprintable() or set(path) & set(" ?#"):
        raise NoTarget(f"its path is {path[:40]!r}")
    try:
        parts = urlsplit(f"{scheme}://{address}")
        usable = bool(parts.hostname) and parts.netloc == address and "@" not in address and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not address.isprintable() or " " in address:
        raise NoTarget(f"its address is {address[:60]!r}, not HOST:PORT")
    query = urlencode(_params(labels, config), doseq=True)
    return f"{scheme}://{address}{path}{'?' + query if query else ''}"


def _params(labels: Labels, config: ScrapeConfig) -> dict[str, tuple[str, ...]]:
    """Labels say the first value of each parameter; further ones are those of the configuration."""
    return {
        name.removeprefix(PARAM): (value, *config.params.get(name.removeprefix(PARAM), ())[1:])
        for name, value in labels.items()
        if name.startswith(PARAM)
    }
