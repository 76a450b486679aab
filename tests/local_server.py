"""Serves weights over HTTP by the library's own endpoints: `python local_server.py FILE KEY WORD…`.

It prints its address, answers nothing but one of the words, and ends at the end of standard input.
"""

from __future__ import annotations

import json
import sys

import xllamacpp


def main(weights: str, key: str, *words: str) -> None:
    said = f"root ::= {' | '.join(json.dumps(word) for word in words)}"
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.n_ctx, params.n_parallel, params.n_gpu_layers = 8192, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.port, params.api_keys, params.ui, params.verbosity = 0, [key], False, -1
    params.sampling.grammar = xllamacpp.CommonGrammar(xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER, said)
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
