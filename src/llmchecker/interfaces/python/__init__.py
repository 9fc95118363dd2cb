"""The Python library: the names of `import llmchecker`."""

import warnings
from importlib import import_module

# transformers imports the progress bars of tqdm, which warn in a notebook without ipywidgets; this
# library shows none, so that the first cell would begin with a warning that concerns nobody
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "IProgress not found")
    import_module("tqdm.auto")
