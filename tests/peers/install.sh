#!/bin/sh
# Install other tools into .venv-peers, each in an environment of its own; done if they are there.
# lm-evaluation-harness is in .venv-servers, as benchmarks compare with it too.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3.11}
here=tests/peers

if ! cmp -s .venv-peers/inspect/installed $here/inspect.txt; then
    rm -rf .venv-peers/inspect
    "$python" -m venv .venv-peers/inspect
    .venv-peers/inspect/bin/python -m pip install --quiet --requirement $here/inspect.txt
    cp $here/inspect.txt .venv-peers/inspect/installed
fi
if ! cmp -s .venv-peers/npm/installed $here/npm.txt; then
    mkdir -p .venv-peers/npm
    # what is installed runs no scripts of its own, except that of the SQLite of promptfoo; without a
    # download, NODE_HEADERS=/usr compiles it with the headers of Node there
    xargs npm install --prefix .venv-peers/npm --no-audit --no-fund --ignore-scripts < $here/npm.txt
    npm rebuild --prefix .venv-peers/npm better-sqlite3 \
        ${NODE_HEADERS:+--build-from-source --nodedir="$NODE_HEADERS"}
    cp $here/npm.txt .venv-peers/npm/installed
fi
tests/servers/install.sh lm_eval
