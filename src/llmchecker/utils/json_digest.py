"""The digest of content in the form of JSON."""

import hashlib
import json
from typing import Any


def compute_json_digest(content: Any) -> str:
    """Return the sha256 of content in the form of JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
