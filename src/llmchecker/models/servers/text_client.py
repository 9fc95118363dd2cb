"""A client of a model that returns texts alone: sequences of independent answers.

A stored answer is requested no second time. Answers are returned in the order of their requests,
because those that arrive first are the short ones. For the same reason an answer that took the
place of a lost one is marked: it is no fair sample. `answer_store` proves that this suffices.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmchecker.errors import (
    ConfigError,
    LLMCheckerError,
    NoResponse,
    RefusedPart,
    RequestRefused,
    SourceUnavailable,
)
from llmchecker.models.decoding.answer_reader import WHOLE_OUTPUT, AnswerReader
from llmchecker.models.decoding.chat_template import Start, start_as_json
from llmchecker.models.decoding.settings import DecodingChoice, decoding_as_json
from llmchecker.models.decoding.template_settings import NO_SETTINGS, TemplateSettings
from llmchecker.models.servers.answer_store import AnswerFile, derive_seed
from llmchecker.models.servers.http_client import RequestLimits, ServerClient, ServerSession
from llmchecker.models.servers.json_api import JsonApi
from llmchecker.models.servers.schema import quote
from llmchecker.models.servers.settings import EXCHANGE_KEYS, ServerSource
from llmchecker.models.servers.spending import Prices, Spending
from llmchecker.models.servers.text_apis import (
    TEXT_APIS,
    ListedModel,
    TextApi,
    TextRequest,
    list_grammar,
    samples_all_tokens,
)
from llmchecker.models.servers.tool_messages import reads_calls
from llmchecker.models.text_answer import Finish, TextAnswer, TextStream, format_time

TEXT_LIMITS = RequestLimits(attempts=8, max_pause_seconds=120.0, max_bytes=2**24)
"""Limits of requests for texts: rate limits last for minutes, and responses are short."""

_MAX_UNREADABLE = 3
"""Largest number of attempts with a response that is not as the API defines it."""
_MAX_TEXT_CHARACTERS = 100_000
"""Largest number of characters of an answer; the rest is dropped."""
_MESSAGE_TOKENS = 100
"""A limit above the tokens that a provider adds to a prompt."""


def read_key(source: ServerSource) -> str | None:
    """Return the key for a server from the environment; None for a server without one.

    Raises:
        ConfigError: the environment variable is not set or contains no valid key.
    """
    if source.key_from is None:
        return None
    key = os.environ.get(source.key_from)
    # an HTTP header allows only printable ASCII
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"key_from: the variable {source.key_from} holds no key; set {source.key_from} "
            "to the key for the server"
        )
    return key


@dataclass(frozen=True)
class _Cost:
    """The largest cost of an answer.

    Attributes:
        tokens: number of tokens of prompt and answer.
        dollars: price in dollars.
    """

    tokens: int
    dollars: float


class TextClient:
    """A model that returns texts alone.

    Attributes:
        name: name of the model in messages.
        source: its server.
        reader: what is read of its answers.

    Args:
        name, source, reader: as above.
        folder: the folder of stored answers.
        decoding: the choice of the next token.
        template: settings of the server's chat template.
        prices: the prices of tokens; None if they are unknown.
        spending: what the run has spent, with its limits.
        limits: limits of requests.

    Raises:
        ConfigError: a limit of money is given without prices, or log probabilities with another
            decoding than theirs.
    """

    def __init__(
        self,
        name: str,
        source: ServerSource,
        folder: Path,
        *,
        decoding: DecodingChoice = None,
        template: TemplateSettings = NO_SETTINGS,
        reader: AnswerReader = WHOLE_OUTPUT,
        prices: Prices | None = None,
        spending: Spending | None = None,
        limits: RequestLimits = TEXT_LIMITS,
    ) -> None:
        self.name, self.source, self._folder = name, source, folder
        self._decoding, self._template, self._prices = decoding, template, prices
        self.reader = reader
        self._spending = spending or Spending()
        if self._spending.max_dollars is not None and prices is None:
            raise ConfigError(
                f"budget.dollars: {name} has no prices; add `prices` to the model, or use tokens"
            )
        if source.top_logprobs and not samples_all_tokens(decoding):
            raise ConfigError(
                f"top_logprobs: {name} has a decoding, which the listed log probabilities ignore; "
                "remove either"
            )
        self._limits = limits
        self._api: TextApi[Any] = JsonApi(source) if source.api == "json" else TEXT_APIS[source.api]
        self._model: ListedModel | None = None
        self._answered_as: str | None = None
        self._files: dict[TextStream, AnswerFile] = {}
        self._costs: dict[TextStream, _Cost] = {}
        self._key_error: ConfigError | None = None
        self._is_checked = False

    @property
    def grammar(self) -> Mapping[str, Any]:
        """The setting of the decoding that states the texts of answers; empty without one."""
        return list_grammar(self._decoding)

    @property
    def top_logprobs(self) -> int:
        """Number of log probabilities that are requested at each token; 0 for none."""
        return self.source.top_logprobs

    @property
    def description(self) -> str:
        """The provider's model and its address."""
        served_as = self.source.served_as if self._model is None else self._model.name
        return f"{self._answered_as or served_as or self.name} at {self.source.address}"

    def check_prompt(self, prompt: Start) -> None:
        """Check that the API accepts the form of a prompt.

        Raises:
            ConfigError: it does not.
        """
        self.source.check_prompt(prompt, self.name)

    def iter_answers(
        self,
        next_request: Callable[[], tuple[TextStream, int] | None],
        must_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[TextStream, TextAnswer | LLMCheckerError]]:
        """Yield answers in the order of their requests.

        Args:
            next_request, must_stop: as in `TextModel`.

        Raises:
            ConfigError: the environment has no key, or the provider does not have the model.
            SourceUnavailable: the provider changed its model.
            DamagedFile: a stored answer is damaged.
        """
        key, self._key_error = None, None
        try:
            key = read_key(self.source)
        except ConfigError as error:
            # stored answers need no key
            self._key_error = error
        lock = asyncio.Lock()

        async def answer(
            session: ServerSession, item: tuple[TextStream, int]
        ) -> tuple[TextStream, TextAnswer | LLMCheckerError]:
            stream, number = item
            received = self._open_file(stream).answers.get(number)
            if received is None:
                async with lock:
                    await self._check_provider(session)
                try:
                    received = await self._request(session, stream, number)
                except SourceUnavailable as error:
                    return stream, error
            return stream, self._join_thought(received)

        def choose() -> tuple[TextStream, int] | None:
            item = next_request()
            if item is not None and item[1] not in self._open_file(item[0]).answers:
                cost = self._bound_cost(item[0])
                self._spending.reserve(cost.tokens, cost.dollars)
            return item

        client = ServerClient(self.source, key, self._limits)
        yield from client.map_on_demand(answer, choose, must_stop)

    def _join_thought(self, answer: TextAnswer) -> TextAnswer:
        """Return an answer whose text has its thought between marks, as a model writes it."""
        marks = self.reader.text_marks
        is_cut = not answer.text and answer.finish in (Finish.TRUNCATED, Finish.MAX_TOKENS)
        if not answer.thought:
            return answer
        # the probabilities of tokens after a hidden thought are not those of the answer
        answer = replace(answer, tokens=())
        if marks is None:
            # an answer that was cut before its first character is none
            return replace(answer, thought="", finish=Finish.MISSING if is_cut else answer.finish)
        thought = ("" if marks.is_open else marks.begin) + answer.thought.replace(marks.end, "")
        text = thought if is_cut else f"{thought}{marks.end}{answer.text}"
        return replace(answer, text=text, thought="")

    def find_spent_limit(self, stream: TextStream, number: int) -> str | None:
        """Return the limit of tokens or money that forbids an answer; None if none does."""
        if number in self._open_file(stream).answers:
            return None
        cost = self._bound_cost(stream)
        return self._spending.find_limit(cost.tokens, cost.dollars)

    async def _check_provider(self, session: ServerSession) -> None:
        """Check key and model before an answer costs anything."""
        if self._is_checked:
            return
        if self._key_error is not None:
            raise self._key_error
        self._model = await self._api.find_model(session, self.source.served_as)
        self._is_checked = True

    async def _request(self, session: ServerSession, stream: TextStream, number: int) -> TextAnswer:
        """Request an answer, and store it."""
        assert self._model is not None
        losses: list[None] = []
        file = self._open_file(stream)
        seed = derive_seed(file.digest, number)
        request = TextRequest(
            *(stream.prompt, self.reader.limit_length(stream.length), seed),
            *(self._decoding, self._model.program),
            template=self._template.variables,
            stop=self.reader.stop,
            top_logprobs=self.source.top_logprobs,
        )
        payload = self._api.build_payload(self._model.name, request)
        reserved = self._bound_cost(stream)
        file.begin_request(number)
        try:
            answer = await self._send(session, payload, request, lambda: losses.append(None))
        except LLMCheckerError:
            # a cancelled request, and one whose response was lost, may have been read
            if not losses:
                file.withdraw_request(number)
            raise
        finally:
            self._spending.release(reserved.tokens, reserved.dollars)
        # a server that ignores stops writes on
        reading = replace(self.reader, marks=None).read(answer.text, is_whole=True)
        answer = replace(
            answer,
            text=reading.output[:_MAX_TEXT_CHARACTERS],
            thought=answer.thought[:_MAX_TEXT_CHARACTERS],
            finish=self._find_finish(answer, stream, has_stopped=reading.has_stopped),
            is_repeated=bool(losses),
            time=format_time(),
        )
        self._pay(answer, stream)
        self._check_model(answer.model)
        return file.add(number, answer)

    def _find_finish(self, answer: TextAnswer, stream: TextStream, *, has_stopped: bool) -> Finish:
        """Return the reason why an answer ends, with the stops and `max_tokens` of the reader."""
        if not answer.is_sample:
            return answer.finish
        if has_stopped:
            return Finish.ENDED
        limit = self.reader.max_tokens
        is_limited = limit is not None and limit <= stream.length
        return Finish.MAX_TOKENS if is_limited and not answer.has_ended else answer.finish

    async def _send(
        self,
        session: ServerSession,
        payload: dict[str, Any],
        request: TextRequest,
        report_loss: Callable[[], None],
    ) -> TextAnswer:
        """Send a request, adapted to what the provider refuses, until a response is readable."""
        unreadable_count = 0
        while True:
            try:
                response = await session.request(
                    self._api.shape, self._api.path, payload, report_loss
                )
                return self._api.read_answer(
                    response, request.max_tokens, reads_calls=reads_calls(request.prompt)
                )
            except RequestRefused as error:
                if (adapted := _adapt_payload(payload, error.parts)) is not None:
                    payload = adapted
                    continue
                # a filter decides about the answer, which is not lost
                if RefusedPart.CONTENT in error.parts:
                    return TextAnswer("", Finish.FILTERED)
                raise
            except NoResponse:
                # the client has repeated the request
                raise
            except SourceUnavailable:
                unreadable_count += 1
                if unreadable_count == _MAX_UNREADABLE:
                    raise
                report_loss()

    def _pay(self, answer: TextAnswer, stream: TextStream) -> None:
        bound = self._bound_cost(stream)
        prompt_tokens, answer_tokens = answer.prompt_tokens, answer.answer_tokens
        # a provider that counts no tokens may have charged for all of them
        if prompt_tokens is None or answer_tokens is None:
            self._spending.pay(bound.tokens, bound.dollars)
            return
        prices = self._prices or Prices(0.0, 0.0)
        dollars = prices.compute_cost(prompt_tokens, answer_tokens)
        self._spending.pay(prompt_tokens + answer_tokens, dollars)

    def _bound_cost(self, stream: TextStream) -> _Cost:
        """Return the largest cost of an answer: a token has at least one byte."""
        if stream not in self._costs:
            prompt = json.dumps(start_as_json(stream.prompt), ensure_ascii=False)
            prompt_tokens = len(prompt.encode()) + _MESSAGE_TOKENS
            prices = self._prices or Prices(0.0, 0.0)
            answer_tokens = self.reader.limit_length(stream.length)
            dollars = prices.compute_cost(prompt_tokens, answer_tokens)
            self._costs[stream] = _Cost(prompt_tokens + answer_tokens, dollars)
        return self._costs[stream]

    def _open_file(self, stream: TextStream) -> AnswerFile:
        if stream not in self._files:
            file = AnswerFile(self._folder, self._describe_requests(stream))
            for answer in file.answers.values():
                self._check_model(answer.model)
            self._files[stream] = file
        return self._files[stream]

    def _describe_requests(self, stream: TextStream) -> Mapping[str, Any]:
        """Return what determines the answers of a sequence."""
        limit = self.reader.max_tokens
        return {
            "address": self.source.address,
            "api": self.source.api,
            "model": self.source.served_as,
            "decoding": decoding_as_json(self._decoding),
            # the marks of a thought change no request
            **({"stop": list(self.reader.stop)} if self.reader.stop else {}),
            **({} if limit is None else {"max_tokens": limit}),
            **({"top_logprobs": self.source.top_logprobs} if self.source.top_logprobs else {}),
            "length": self.reader.limit_length(stream.length),
            "seed": stream.seed,
            "prompt": start_as_json(stream.prompt),
            **({"template": self._template.as_json} if self._template else {}),
            # what an application gets, and what is read of its response
            **{key: value for key in EXCHANGE_KEYS if (value := getattr(self.source, key))},
        }

    def _check_model(self, model: str | None) -> None:
        """Check that all answers are of one model.

        Raises:
            SourceUnavailable: the provider returns another name than before.
        """
        if model is None:
            return
        known = self._answered_as = self._answered_as or model
        if known != model:
            raise SourceUnavailable(
                f"{self.name}: the provider answers as {quote(model)!r} and as {quote(known)!r}, "
                f"which are two samplers; name one, or delete {self._folder} to begin anew"
            )


def _adapt_payload(
    payload: dict[str, Any], refused: frozenset[RefusedPart]
) -> dict[str, Any] | None:
    """Return the request as a provider that refused it accepts it; None if this is unknown."""
    adapted = dict(payload)
    if RefusedPart.LIMIT_NAME in refused and "max_tokens" in payload:
        adapted["max_completion_tokens"] = adapted.pop("max_tokens")
    elif RefusedPart.SEED in refused and "seed" in payload:
        del adapted["seed"]
    else:
        # without the setting, the provider samples at temperature 1 from all tokens
        defaults = {RefusedPart.TEMPERATURE: "temperature", RefusedPart.TOP_P: "top_p"}
        names = [name for part, name in defaults.items() if part in refused]
        if not any(payload.get(name) == 1 for name in names):
            return None
        adapted = {
            name: value for name, value in payload.items() if name not in names or value != 1
        }
    return adapted
