"""llama.cpp's server on a free port of this machine, until it is stopped; prints its address.

    python llama_cpp.py MODEL.gguf THREADS

It runs in an environment of its own, which has xllamacpp and nothing of this project.
"""

import sys
import threading

import xllamacpp


def main() -> None:
    """Serve a model at the address that is printed."""
    file, threads = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = file
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = 4
    params.warmup = False
    params.cpuparams.n_threads = int(threads)
    params.cpuparams_batch.n_threads = int(threads)
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
