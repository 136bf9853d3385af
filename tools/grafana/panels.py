"""Draw the dashboards with Grafana's own components, from a real Prometheus that holds a simulated fleet's story.

    python -m tools.grafana.panels [SCENE…] [--all] [--list] [--again] [--minutes N] [--board UID]… [--mode light]…
        [--output DIR]

A scene is a fleet of 5 or 200 servers, healthy or in one kind of incident. Without one, the pictures of the README and
the docs are taken. Panels whose components Grafana does not publish (heatmap, state timeline, xy chart) are drawn in a
simple way of their own. What no panel shows, and what a component complains of, is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiohttp import web
from playwright.async_api import Browser, ConsoleMessage

from tools import install_test_programs as programs
from tools.browser import browsing
from tools.grafana import npm
from tools.grafana.answers import SERIES, ask, expressions
from tools.grafana.history import RULES, evaluate_rules, instance, play, prometheus
from tools.grafana.scenes import scene, scenes

ROOT = npm.PROJECT.parent.parent
DASHBOARDS = ROOT / "dashboards"
IMAGES = ROOT / "docs" / "images" / "dashboards"
PICTURES = npm.CACHE / "pictures"
VIEWS = npm.CACHE / "views"

MODES = ("light", "dark")
ONE_SERVER = frozenset(["specwatch-server"])
"""Dashboards that are about one server: the scene's subject is chosen on them."""

WIDTH, HEIGHT = 1440, 1120
SETTLE_MILLISECONDS = 1500
"""Grafana's charts are drawn after their panels are laid out."""

SHOWN: Mapping[str, Sequence[str]] = {"one-replica-off-5": (), "healthy-200": ("specwatch-fleet",)}
"""Scenes whose pictures are in the docs, and the dashboards that are drawn there; all of them without one."""

LARGEST = 250_000
"""Bytes of a picture in the docs: they must open quickly."""


@dataclass(frozen=True)
class Wanted:
    """Which pictures, and where to."""

    boards: Sequence[str]
    modes: Sequence[str]
    output: Path
    whole: bool
    minutes: float | None
    again: bool
    """Draw the answers of the last time: for work on the page that draws."""

    def path(self, board: str, scene: str) -> Path:
        """Where the answers are kept."""
        return VIEWS / f"{board.removeprefix('specwatch-')}-{scene}.json"


async def draw(name: str, wanted: Wanted, browser: Browser) -> None:
    """Play a scene and take the pictures of every dashboard in it."""
    dashboards = {path.stem: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}
    boards = wanted.boards or list(dashboards)
    if not wanted.again:
        await _record(name, {uid: dashboards[uid] for uid in boards}, wanted)
    for uid in boards:
        await _pictures(wanted.path(uid, name), wanted, browser)


async def _record(name: str, dashboards: Mapping[str, Any], wanted: Wanted) -> None:
    texts = [RULES.read_text(), *(expr for dashboard in dashboards.values() for expr in expressions(dashboard))]
    names = frozenset(["up", *(found for text in texts for found in SERIES.findall(text))])
    story = scene(name)
    if wanted.minutes:
        story = replace(story, seconds=min(story.seconds, 60 * wanted.minutes))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        print(f"{name}: playing {story.seconds / 60:.0f} minutes of {len(story.servers)} servers", flush=True)
        history = await play(story, names, folder)
        await evaluate_rules(history, folder)
        VIEWS.mkdir(parents=True, exist_ok=True)
        async with prometheus(folder) as server:
            for uid, dashboard in dashboards.items():
                chosen = {"instance": instance(story.subject)} if uid in ONE_SERVER else {}
                view = await ask(server, dashboard, chosen, history)
                wanted.path(uid, name).write_text(json.dumps(view.json()))


async def _pictures(view: Path, wanted: Wanted, browser: Browser) -> None:
    name = view.stem
    async with _served(view) as url:
        for mode in wanted.modes:
            page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.on("pageerror", lambda error: print(f"  {name}: {str(error)[:300]}"))
            page.on("console", lambda said: _complain(name, said))
            await page.goto(f"{url}/index.html?mode={mode}")
            dashboard = page.locator("#dashboard")
            await dashboard.wait_for()
            if wanted.whole:
                # Grafana's tables draw no row that is outside of the window.
                height = await dashboard.evaluate("element => element.offsetHeight")
                await page.set_viewport_size({"width": WIDTH, "height": height})
            await page.wait_for_timeout(SETTLE_MILLISECONDS)
            if mode == wanted.modes[0]:
                for empty in await page.locator("[data-panel]:has([data-empty])").all():
                    print(f"  {name}: empty: {await empty.get_attribute('data-panel')}")
                for problem in await page.locator("[data-problem]").all():
                    print(f"  {name}: {(await problem.inner_text())[:300]}")
            path = wanted.output / f"{name}-{mode}.png"
            await page.screenshot(path=path)
            await page.close()
            if path.parent == IMAGES and path.stat().st_size > LARGEST:
                raise ValueError(f"{path} has {path.stat().st_size} bytes, more than {LARGEST}")
            print(f"  {path} ({path.stat().st_size / 1000:.0f} kB)", flush=True)


def _complain(name: str, said: ConsoleMessage) -> None:
    # Icons are Grafana's own server's to serve.
    if said.type == "error" and "Failed to load resource" not in said.text:
        print(f"  {name}: {said.text[:300]}")


@asynccontextmanager
async def _served(view: Path) -> AsyncIterator[str]:
    """The page that draws, and what it is to draw, on a free port of the loopback."""

    async def data(_: web.Request) -> web.FileResponse:
        return web.FileResponse(view)

    application = web.Application()
    application.router.add_get("/view.json", data)
    application.router.add_static("/", npm.build())
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def draw_all(boards: Mapping[str, Sequence[str]], wanted: Wanted, chromium: Path) -> None:
    """Take the pictures of several scenes, one after the other; ``boards`` narrows the dashboards by scene."""
    wanted.output.mkdir(parents=True, exist_ok=True)
    async with browsing(chromium) as browser:
        for name, only in boards.items():
            await draw(name, replace(wanted, boards=wanted.boards or only), browser)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: 0 when every picture is taken, 1 when a program is missing."""
    parser = argparse.ArgumentParser(description="Draw the dashboards with Grafana's own components.")
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help="scenes to draw whole; see --list")
    parser.add_argument("--all", action="store_true", help="draw every scene whole")
    parser.add_argument("--list", action="store_true", help="list the scenes")
    parser.add_argument("--again", action="store_true", help="draw the answers of the last time once more")
    parser.add_argument("--minutes", type=float, help="play only this much of the story")
    parser.add_argument("--board", action="append", default=[], metavar="UID", help="this dashboard only")
    parser.add_argument("--mode", action="append", default=[], choices=MODES, help="this mode only")
    parser.add_argument("--output", type=Path, help="folder for the PNG files")
    options = parser.parse_args(arguments)
    known = scenes()
    if options.list:
        print("\n".join(known))
        return 0
    unknown = sorted(set(options.scenes) - set(known))
    if unknown:
        parser.error(f"no scene {', '.join(unknown)}; --list shows them")
    needed = [programs.CHROMIUM, programs.PROMETHEUS, programs.PROMTOOL]
    missing = [program for program in needed if programs.find(program) is None]
    chromium = programs.find(programs.CHROMIUM)
    if missing or chromium is None:
        print(programs.remedy(missing), file=sys.stderr)
        return 1
    chosen = list(known) if options.all else options.scenes
    wanted = Wanted(
        boards=options.board,
        modes=options.mode or MODES,
        output=options.output or (PICTURES if chosen else IMAGES),
        whole=bool(chosen),
        minutes=options.minutes,
        again=options.again,
    )
    asyncio.run(draw_all(dict.fromkeys(chosen, ()) or SHOWN, wanted, chromium))
    return 0


if __name__ == "__main__":
    sys.exit(main())
