"""The way in with a browser: it asks for a password by itself, and the page needs no code for that."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Error

from specwatch.collect.targets import Target
from specwatch.sidecar.access import Access, TokenFile
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service, ServiceSettings
from tests.support.page import PATIENCE
from tests.support.services import chromium
from tools.browser import browsing
from tools.rehearsal import serving

READER = "reader-0123456789abcdef"
ADMIN = "admin-0123456789abcdef"
CHANGE = """() => fetch("api/v1/silences", {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify({target: "gpu", ends_at: Date.now() / 1000 + 60}),
}).then((answer) => answer.status)"""


def token_file(path: Path, text: str) -> TokenFile:
    path.write_text(text)
    return TokenFile(path, "--token-file")


@pytest.mark.browser
async def test_a_token_as_password_opens_page_figures_and_events_and_changes_what_its_role_may(tmp_path):
    access = Access(read=token_file(tmp_path / "read", READER), admin=token_file(tmp_path / "admin", ADMIN))
    service = Service([Target("gpu", "http://127.0.0.1:1/metrics")], settings=ServiceSettings(interval=0.5))
    answers: dict[str, int] = {}
    async with serving(create_app(service, AlertBook(), access=access)) as url, browsing(chromium()) as browser:
        nobody = await browser.new_page()
        with pytest.raises(Error, match="ERR_INVALID_AUTH_CREDENTIALS"):  # nobody is there to be asked for a password
            await nobody.goto(url)
        for token, status in ((READER, 401), (ADMIN, 201)):
            context = await browser.new_context(http_credentials={"username": "anna", "password": token})
            page = await context.new_page()
            page.set_default_timeout(PATIENCE)
            page.on("response", lambda response: answers.update({response.url.removeprefix(url): response.status}))
            await page.goto(url)
            await page.get_by_text("gpu").first.wait_for()
            assert await page.evaluate(CHANGE) == status
            await context.close()
    assert answers["/api/v1/events"] == 200
    assert {status for path, status in answers.items() if path != "/api/v1/silences"} <= {200, 304}
