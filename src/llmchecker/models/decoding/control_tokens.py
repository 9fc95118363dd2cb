"""Control tokens that are typed in messages: where a rendered chat has them, and their text tokens.

A chat template is a program that may split, cut and compare messages, so a message must reach it as
it is. Which characters of the result come from a message is found by intervention: the message's
characters are replaced by a stand-in, and the chat is rendered again.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

from llmchecker.errors import UnusableText

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_DELIMITER = re.compile(r"[<\[][|｜].+[|｜][>\]]")
"""Form of control tokens that some tokenizers add without marking them as special: `<|user|>`."""


def read_control_tokens(tokenizer: "PreTrainedTokenizerBase") -> dict[int, str]:
    """Return the texts of a tokenizer's control tokens by token id.

    These are its special tokens, and added tokens of the form `<|user|>`. Other added tokens, such
    as `<think>`, are a part of the texts that the model reads and writes.
    """
    special_tokens = set(tokenizer.all_special_ids)
    return {
        token: added.content
        for token, added in tokenizer.added_tokens_decoder.items()
        if added.special or token in special_tokens or _DELIMITER.fullmatch(added.content)
    }


@dataclass(frozen=True)
class ControlToken:
    """A control token in a rendered chat.

    Attributes:
        index: index in the tokens of the chat.
        token: token id.
        text: its characters, without white space around them.
        positions: positions of its characters in the rendered chat, without white space.
    """

    index: int
    token: int
    text: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class RenderedChat:
    """The text that a chat template makes of messages, and its tokens.

    Attributes:
        tokenizer: the tokenizer, a fast one.
        text: the text.
        tokens: token ids of the text, where typed control tokens are control tokens.
        offsets: (begin, end) of each token in the text.
    """

    tokenizer: "PreTrainedTokenizerBase"
    text: str
    tokens: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]

    @cached_property
    def control_tokens(self) -> tuple[ControlToken, ...]:
        """The control tokens, where the tokenizer itself finds them."""
        control_tokens = read_control_tokens(self.tokenizer)
        found = []
        for index, (token, (begin, end)) in enumerate(zip(self.tokens, self.offsets, strict=True)):
            if token not in control_tokens:
                continue
            # the tokenizer may count white space around a token as a part of it
            text = self.text[begin:end].strip()
            # the token of unknown words stands for any word
            if token != self.tokenizer.unk_token_id or text == self.tokenizer.unk_token:
                positions = tuple(p for p in range(begin, end) if not self.text[p].isspace())
                found.append(ControlToken(index, token, text, positions))
        return tuple(found)

    def find_typed_tokens(
        self, messages: Sequence[tuple[str, str]], render: Callable[[Sequence[str]], str]
    ) -> dict[ControlToken, int]:
        """Return the control tokens that messages contain, with the number of the message.

        Args:
            messages: (role, content) pairs.
            render: renders the messages with other contents.

        Raises:
            UnusableText: a message contains a control token that cannot be told from the
                template's, or a part of one.
        """
        sources, acted_on = self._trace_sources([content for _, content in messages], render)
        typed_tokens = {}
        for token in self.control_tokens:
            positions = [position for position in token.positions if position in sources]
            number = min((sources[position] for position in positions), default=None)
            if number is None:
                for acting in acted_on.get(token.text, ()):
                    # a template may take apart what the model wrote, such as its thoughts
                    if messages[acting][0] != "assistant":
                        raise UnusableText(
                            f"messages[{acting}].content: it contains {token.text!r}, on which the "
                            "chat template acts; rewrite the message"
                        )
            elif len(positions) < len(token.positions):
                raise UnusableText(
                    f"messages[{number}].content: together with the chat template it forms "
                    f"{token.text!r}; rewrite the message"
                )
            else:
                typed_tokens[token] = number
        return typed_tokens

    def _trace_sources(
        self, contents: Sequence[str], render: Callable[[Sequence[str]], str]
    ) -> tuple[Mapping[int, int], Mapping[str, Sequence[int]]]:
        """Return the number of the message at positions of the text, and what the template acts on.

        If stand-ins in a message change the text at some positions alone, and into stand-ins,
        then these positions come from the message, and no other depends on what was replaced.

        Returns:
            The number of the message by position, and the numbers of the messages by control token
            on which the template acts, such as by splitting the message there.
        """
        # of the private use area: not white space, without case, and in no template
        used = set(self.text).union(*contents)
        stand_in = next(chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in used)

        def trace(number: int, pattern: str) -> list[int] | None:
            content = re.sub(pattern, lambda match: stand_in * len(match[0]), contents[number])
            try:
                text = render([*contents[:number], content, *contents[number + 1 :]])
            except UnusableText:
                return None
            if len(text) != len(self.text):
                return None
            changed = [
                p for p, pair in enumerate(zip(self.text, text, strict=True)) if pair[0] != pair[1]
            ]
            return changed if all(text[position] == stand_in for position in changed) else None

        sources: dict[int, int] = {}
        acted_on: dict[str, list[int]] = {}
        control_texts = {token.text for token in self.control_tokens}
        for number, content in enumerate(contents):
            positions = trace(number, r"\S")
            if positions is None:
                # the template acts on a part of the message, but maybe not on its control tokens
                positions = []
                for control_text in sorted(text for text in control_texts if text in content):
                    changed = trace(number, re.escape(control_text))
                    if changed is None:
                        acted_on.setdefault(control_text, []).append(number)
                    positions += changed or []
            sources |= dict.fromkeys(positions, number)
        return sources, acted_on

    def encode_as_text(self, typed_tokens: Mapping[ControlToken, int]) -> tuple[int, ...]:
        """Return the tokens with typed control tokens as text.

        The tokenizer encodes the parts between control tokens independently, so only parts with a
        typed control token change.

        Args:
            typed_tokens: the typed control tokens with the number of their message.

        Raises:
            UnusableText: the tokenizer has no encoding of a typed control token as text.
        """
        kept_tokens = [token.index for token in self.control_tokens if token not in typed_tokens]
        result: list[int] = []
        first = 0
        for last in (*kept_tokens, len(self.tokens)):
            typed_in_part = [token for token in typed_tokens if first <= token.index < last]
            if typed_in_part:
                part = self._encode_part(first, last, typed_in_part)
                if part is None:
                    number, text = typed_tokens[typed_in_part[0]], typed_in_part[0].text
                    raise UnusableText(
                        f"messages[{number}].content: the tokenizer encodes {text!r} only as a "
                        "control token; rewrite the message"
                    )
                result += part
            else:
                result += self.tokens[first:last]
            result += self.tokens[last : last + 1]
            first = last + 1
        return tuple(result)

    def _encode_part(
        self, first: int, last: int, typed_tokens: Sequence[ControlToken]
    ) -> list[int] | None:
        """Return text tokens of a part of the chat; None if it has no encoding as text.

        Args:
            first: index of the first token of the part.
            last: index after the last token of the part.
            typed_tokens: the control tokens in the part, all of them typed.
        """
        begin = self.offsets[first - 1][1] if first else 0
        end = self.offsets[last][0] if last < len(self.tokens) else len(self.text)
        # `split_special_tokens` has no effect on other tokens, so they are cut
        added_tokens = self.tokenizer.added_tokens_decoder
        cuts = [t.positions[0] + 1 for t in typed_tokens if not added_tokens[t.token].special]
        pieces = [self.text[start:stop] for start, stop in pairwise([begin, *cuts, end])]
        context = self._find_context(first)
        if self._encode_after(context, self.text[begin:end]) != list(self.tokens[first:last]):
            return None
        contexts = [context, *["\n"] * len(cuts)]
        text_tokens = [
            token
            for context, piece in zip(contexts, pieces, strict=True)
            for token in self._encode_after(context, piece, split_special_tokens=True)
        ]
        # an unknown word is text
        control_tokens = read_control_tokens(self.tokenizer).keys() - {self.tokenizer.unk_token_id}
        return None if control_tokens & set(text_tokens) else text_tokens

    def _find_context(self, first: int) -> str:
        """Return a text after which others have the tokens that they have from a token on.

        Some tokenizers add a space to the beginning of a text, and others also after each control
        token. None adds it after a line break.
        """
        if first == 0:
            return ""
        begin, end = self.offsets[first - 1]
        tokens = self._encode_after("", f"{self.text[begin:end].strip()}a")[1:]
        return "" if tokens == self._encode_after("", "a") else "\n"

    def _encode_after(self, context: str, text: str, **settings: bool) -> list[int]:
        """Return the tokens that a text adds to those of a context."""
        encode = partial(self.tokenizer.encode, add_special_tokens=False, verbose=False, **settings)
        context_tokens: list[int] = encode(context) if context else []
        tokens: list[int] = encode(context + text)
        if tokens[: len(context_tokens)] != context_tokens:
            tokens, context_tokens = encode(text), []
        return tokens[len(context_tokens) :]
