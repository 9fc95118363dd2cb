"""A help desk behind HTTP, which words its answers at random as a language model does.

Replace `write_answer` by a call of your model or chain.
"""

import random

from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()

_OPENINGS = ("Sure!", "Of course.", "Thank you for asking.")


class Question(BaseModel):
    """A question with the documents that were found for it."""

    question: str
    documents: list[str]
    user: str


def write_answer(question: Question) -> str:
    """Write an answer; one in a hundred ignores the documents."""
    if not question.documents or random.random() < 0.01:
        return "I do not know."
    return f"{random.choice(_OPENINGS)} {random.choice(question.documents[:1])}"


@app.post("/ask")
def ask(question: Question) -> dict[str, dict[str, str]]:
    """Answer a question."""
    return {"reply": {"text": write_answer(question), "end": "stop"}}
