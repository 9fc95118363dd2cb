"""The files of a new suite: a commented suite and a workflow that runs it."""

SUITE_NAME = "suite.yaml"
"""Name of the suite file."""
WORKFLOW_NAME = ".github/workflows/llmchecker.yaml"
"""Name of the workflow file."""

SUITE = """\
# `llmchecker test suite.yaml` decides every requirement, certainly or with the confidence below.

model: {model}                # a name of config.yaml, or a directory
length: 40                    # tokens
confidence: 0.99              # of all verdicts together
budget: {{ passes: 2000 }}      # texts that the model evaluates for each case
# system: "You are a helpful assistant."
# decoding: {{ temperature: 0.2, top_p: 0.9 }}

properties:                   # what queries and averages measure; columns of prompts in braces
  says_yes: {{ type: pattern, pattern: '(?i)^\\W*yes\\b' }}
  # correct: {{ type: pattern, pattern: '(?i)\\b{{answer}}\\b' }}

cases:
  - name: madrid
    user: Is Madrid in Spain? Answer yes or no.   # or start: a text to continue
    require:
      - {{ contains: "es", at_least: 0.05 }}        # an assertion
      - "P<=0.999 [ F says_yes = 1 ]"             # or a query with a threshold

  # - name: questions
  #   prompts: questions.csv                      # columns user, answer and topic
  #   average: {{ accuracy: "mean P=? [ F correct > 0 ] >= 0.7" }}
  #   by: topic

# versus:                     # no worse than another model, prompt or decoding
#   system: "Answer briefly."
#   require: {{ accuracy: "difference >= -0.02" }}
"""
"""Template of the suite file."""

WORKFLOW = """\
# Decides the requirements of the suite at each change; the summary of the run shows the verdicts.
name: llmchecker
on: [push, pull_request]
permissions: { contents: read }
jobs:
  suite:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: { python-version: "3.11" }
      - run: pip install llmchecker
      - run: >
          llmchecker test suite.yaml --junit results.xml --json results.jsonl
          --markdown "$GITHUB_STEP_SUMMARY" --html results.html
      - uses: actions/upload-artifact@v4
        if: always()
        with: { name: llmchecker, path: "results.*" }
"""
"""The workflow file."""
