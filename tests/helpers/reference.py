"""The paper's Algorithm 1 written out literally: one forward pass a node, no batch, no cache.

It shares with the package nothing but the loaded network and tokenizer.
"""

from dataclasses import dataclass, field

import torch


@dataclass
class Node:
    """A state of the process: tokens after the prompt, and how it was reached."""

    tokens: tuple[int, ...]
    probability: float
    kind: str
    children: list["Node"] = field(default_factory=list)


def select(probabilities: list[float], alpha: float, k: int) -> list[int]:
    """TOP(alpha, k): Definition III.4, token by token."""
    order = sorted(range(len(probabilities)), key=lambda token: (-probabilities[token], token))
    chosen: list[int] = []
    mass = 0.0
    for token in order:
        if len(chosen) == k or (chosen and mass >= alpha):
            break
        chosen.append(token)
        mass += probabilities[token]
    return chosen


def next_token(network, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> list[float]:
    """The distribution after a text, by one forward pass over the whole of it."""
    with torch.inference_mode():
        logits = network(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, -1]
    return torch.softmax(logits.double(), dim=-1).tolist()


def expand(
    network,
    prompt: tuple[int, ...],
    alpha: float,
    k: int,
    length: int,
    ends: frozenset[int],
    node: Node | None = None,
) -> Node:
    """Algorithm 1: add to a node its selected children and its rest, and go on with each child."""
    node = node or Node((), 1.0, "text")
    if len(node.tokens) == length or node.kind != "text":
        return node
    probabilities = next_token(network, prompt, node.tokens)
    chosen = select(probabilities, alpha, k)
    for token in chosen:
        kind = "end" if token in ends else "text"
        child = Node((*node.tokens, token), probabilities[token], kind)
        node.children.append(expand(network, prompt, alpha, k, length, ends, child))
    rest = sum(p for token, p in enumerate(probabilities) if token not in set(chosen))
    if rest > 0:
        node.children.append(Node((*node.tokens, -1), rest, "rest"))
    return node


def states(root: Node) -> dict[tuple[int, ...], tuple[float, str]]:
    """Every state below a node by its tokens, with its probability and kind."""
    found = {root.tokens: (root.probability, root.kind)}
    for child in root.children:
        found.update(states(child))
    return found
