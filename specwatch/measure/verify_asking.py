"""Asking a vLLM server for text with its token ids, and for the log-probabilities of that text."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp

from specwatch import __version__
from specwatch.alerting.text import clean, cut
from specwatch.collect.asking import PATIENT
from specwatch.collect.credentials import Credentials, Terms
from specwatch.collect.http import connection_failure
from specwatch.collect.scraper import ScrapeError, scrape, server_release
from specwatch.collect.targets import Target
from specwatch.errors import InputError
from specwatch.measure.connector import connector
from specwatch.measure.losslessness import Scored
from specwatch.vllm.metrics import Snapshot

ANSWER_BYTES = 32 * 2**20
"""Most that is read of one answer. A listed token takes 75 bytes, so 400,000 of them fit: a vocabulary of 150,000 once,
to see its size, or 1000 for each of 400 tokens."""

LISTED = 20
"""Log-probabilities a token that every vLLM lists unless told otherwise (``--max-logprobs``)."""

SMALL_VOCABULARY = 1024
"""Up to which the whole vocabulary is asked for: more would cost megabytes an answer and tell little."""

WHOLE = -1
"""What asks for all log-probabilities."""

SUM_ERROR = 1e-3
"""By how much probabilities may add up to more than 1: log-probabilities are rounded to 24 bits."""

SHOWN = 300
"""Characters of an answer that a message repeats."""

NEUTRAL = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Said with every request: a server's generation_config.json would fill in its own, and then sample from another
distribution than it states."""


class ServerError(InputError):
    """The server cannot be verified: the text names it and the reason."""


class _Refused(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Sampled:
    """Token ids of a prompt and its answer."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


class Server:
    """A vLLM server, asked for a model's text and scores; ServerError for whatever prevents that.

    Use it as an async context manager. ``target`` names its metrics page; ``seconds`` bounds every request.
    """

    def __init__(
        self,
        target: Target,
        model: str | None = None,
        token: str | None = None,
        seconds: float = 120.0,
        credentials: Credentials | None = None,
        key_option: str = "--token-file",
    ) -> None:
        """``credentials`` are how its page is scraped; ``token`` takes the place of theirs where text is asked for."""
        self.target = target
        self.model = model or ""
        self.release: str | None = None
        self.max_model_len: int | None = None
        self.listed: int | None = None
        """Log-probabilities listed a token; None before the first score."""
        self._whole = False
        self._one_asks = asyncio.Lock()
        self._token = {"Authorization": f"Bearer {token}"} if token else {}
        self._key_option = key_option
        self._credentials = credentials
        self._timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=10.0)

    async def __aenter__(self) -> Server:
        """Connect, and find the model."""
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": f"specwatch/{__version__}", **self._token},
            timeout=self._timeout,
            connector=connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        try:
            self.release = await server_release(self._session, self.target, PATIENT.seconds, self._credentials)
            await self._find_model()
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        await self._session.close()

    @property
    def whole(self) -> bool:
        """Whether scores list the whole vocabulary."""
        return self._whole

    async def page(self) -> Snapshot | None:
        """The metrics page, or None where there is none to read."""
        try:
            return await scrape(self._session, self.target, PATIENT, self._credentials)
        except ScrapeError:
            return None

    async def sample(self, prompt: str, temperature: float, tokens: int) -> Sampled:
        """Up to so many tokens of an answer."""
        choice = await self._complete(
            {"prompt": prompt, "max_tokens": tokens, "temperature": temperature, "return_token_ids": True, **NEUTRAL}
        )
        ids = choice.get("prompt_token_ids"), choice.get("token_ids")
        if not all(isinstance(each, list) and all(isinstance(number, int) for number in each) for each in ids):
            raise self._problem("tells no token ids: only vLLM does, from 0.10.2 on (return_token_ids)")
        return Sampled(tuple(ids[0] or ()), tuple(ids[1] or ())[:tokens])

    async def score(self, sampled: Sampled) -> list[Scored]:
        """What the model says of each token of an answer, found by a prefill, where nothing is speculated."""
        if not sampled.answer:
            return []
        async with self._one_asks:
            if self.listed is None:
                await self._find_list_size(sampled.prompt[:1] + sampled.answer[:1])
        entries = await self._logprobs([*sampled.prompt, *sampled.answer], WHOLE if self._whole else self.listed or 1)
        answered = entries[len(sampled.prompt) :]
        if len(answered) != len(sampled.answer):
            raise self._problem(f"scores {len(answered)} tokens of an answer of {len(sampled.answer)}")
        return [self._scored(place, token) for place, token in zip(answered, sampled.answer, strict=True)]

    async def _find_list_size(self, ids: Sequence[int]) -> None:
        """The whole vocabulary where it is small and the server lists that much, else 20, else what it allows."""
        try:
            places = await self._logprobs(ids, WHOLE)
            size = len(places[-1] or ())
            self._whole = 0 < size <= SMALL_VOCABULARY
            self.listed = size if self._whole else LISTED
        except _Refused:
            self.listed = await self._allowed(ids)

    async def _allowed(self, ids: Sequence[int]) -> int:
        try:
            await self._logprobs(ids, LISTED)
        except _Refused as refusal:
            limit = re.search(r"max(?:imum)? allowed:? *(\d{1,3})\b", str(refusal))
            if not limit or int(limit[1]) == 0:
                raise self._problem(
                    f"does not score text (prompt_logprobs), so nothing can be verified: {refusal}. "
                    "Its --max-logprobs has to be 1 or more, better 20"
                ) from None
            return int(limit[1])
        return LISTED

    async def _logprobs(self, ids: Sequence[int], count: int) -> list[Mapping[str, Any] | None]:
        # One token has to be generated: it is the prefill's own, and no draft is verified for it.
        body = {"prompt": list(ids), "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": count, **NEUTRAL}
        choice = await self._complete(body, refusals=self.listed is None)
        places = choice.get("prompt_logprobs")
        if not isinstance(places, list) or not all(isinstance(place, dict | None) for place in places):
            raise self._problem("answers without prompt_logprobs, so nothing can be verified: only vLLM scores text so")
        return places

    def _scored(self, place: Mapping[str, Any] | None, token: int) -> Scored:
        try:
            logprobs = {key: float(entry["logprob"]) for key, entry in (place or {}).items()}
            own = logprobs[str(token)]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._problem("answers with prompt_logprobs in another form than vLLM's") from None
        if not all(math.isfinite(value) for value in logprobs.values()):
            raise self._problem("scores with log-probabilities that are no numbers: its model's output is damaged")
        # The token itself comes with the likeliest ones, and beside them where it is none.
        listed = self._whole or len(logprobs) <= (self.listed or 0)
        top = sorted((value for key, value in logprobs.items() if listed or key != str(token)), reverse=True)
        total = sum(map(math.exp, top)) if max(top, default=1.0) <= SUM_ERROR else math.inf
        if total > 1 + SUM_ERROR or (self._whole and total < 1 - SUM_ERROR):
            raise self._problem("scores with numbers that are no log-probabilities: is --logprobs-mode raw_logits?")
        return Scored(own, tuple(top), listed, self._whole)

    async def _find_model(self) -> None:
        try:
            page = await self._ask("GET", "/v1/models")
            cards = [card for card in page["data"] if isinstance(card["id"], str)]
        except _Refused as refusal:
            raise self._problem(f"is no OpenAI-compatible server: {refusal}") from None
        except (LookupError, TypeError):
            raise self._problem("is no OpenAI-compatible server: it lists no models") from None
        names = [card["id"] for card in cards]
        if not names:
            raise self._problem("serves no model")
        if self.model and self.model not in names:
            shown = ", ".join(clean(name) for name in names[:10])
            raise self._problem(f"serves no model {self.model!r}: it has {cut(shown, SHOWN)}")
        self.model = self.model or names[0]
        length = cards[names.index(self.model)].get("max_model_len")
        self.max_model_len = length if isinstance(length, int) else None

    async def _complete(self, body: Mapping[str, Any], refusals: bool = False) -> Mapping[str, Any]:
        """The one choice of a completion; ``refusals`` leaves an answer other than 200 to the caller."""
        try:
            page = await self._ask("POST", "/v1/completions", {"model": self.model, **body})
            choice = page["choices"][0]
        except _Refused as refusal:
            if refusals:
                raise
            raise self._problem(f"refuses a completion: {refusal}") from None
        except (LookupError, TypeError):
            raise self._problem("answers with something else than a completion") from None
        if not isinstance(choice, dict):
            raise self._problem("answers with something else than a completion")
        return choice

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        terms = self._credentials.terms() if self._credentials else Terms()
        try:
            async with self._session.request(
                method,
                self.target.server + path,
                json=body,
                allow_redirects=False,
                headers={**terms.headers, **self._token},
                ssl=terms.tls,
                server_hostname=terms.server_name,
            ) as response:
                raw = await self._read(response)
                if response.status in (401, 403):
                    raise self._problem(f"wants an API key: put it into a file and name that with {self._key_option}")
                if response.status != 200:
                    raise _Refused(response.status, _reason(response.status, raw))
                return json.loads(raw)
        except asyncio.TimeoutError:
            raise self._problem(f"did not answer {path} within {self._timeout.total:g} s") from None
        except (aiohttp.ClientError, OSError) as problem:
            raise self._problem(f"cannot be asked: {_words(problem)}") from None
        except (ValueError, RecursionError):
            raise self._problem(f"answers {path} with something that is no JSON") from None

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > ANSWER_BYTES:
                raise self._problem(f"gives an answer of more than {ANSWER_BYTES // 2**20} MiB")
        return bytes(body)

    def _problem(self, text: str) -> ServerError:
        return ServerError(f"{self.target.server} {text}")


def _reason(status: int, raw: bytes) -> str:
    """What the server says of a refusal: vLLM's message, or the beginning of whatever came."""
    try:
        page = json.loads(raw)
        error = page.get("error", page)
        text = str(error["message"])
    except (ValueError, LookupError, TypeError, AttributeError):
        text = raw[:SHOWN].decode(errors="replace")
    return f"HTTP {status}: {cut(clean(text), SHOWN)}"


def _words(problem: Exception) -> str:
    """A connection's failure without Python's decoration."""
    if isinstance(problem, aiohttp.ClientConnectorError):
        return connection_failure(problem)
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    return cut(clean(str(problem) or type(problem).__name__), SHOWN)
