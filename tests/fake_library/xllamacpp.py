"""Stands in for the library of the same name: it chooses, by the seed, from what the schema allows.

Its weights are a file that begins with GGUF and goes on with a JSON object: `die` (numbers of the calls it dies in),
`say` (a text instead of a choice), `refuse` (why a call fails), `sleep` (seconds a call takes), `last`
(tools chosen only when nothing else is offered). Each call is appended to `FILE.calls`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class CommonParams:
    def __init__(self) -> None:
        self.model = SimpleNamespace(path="")
        self.cpuparams, self.cpuparams_batch = SimpleNamespace(n_threads=0), SimpleNamespace(n_threads=0)
        self.n_ctx = self.n_parallel = self.n_gpu_layers = self.port = 0
        self.api_keys: list[str] = []
        self.ui, self.endpoint_slots, self.verbosity = True, True, 3
        self.server_tools: list[str] = ["all"]


class Server:
    def __init__(self, params: CommonParams) -> None:
        data = Path(params.model.path).read_bytes()
        if data[:4] != b"GGUF":
            raise RuntimeError("failed to load the model")
        print("the library prints what it likes", flush=True)
        self.plan = json.loads(data[4:] or b"{}")
        self.calls = Path(f"{params.model.path}.calls")
        opened = params.ui or params.endpoint_slots or params.server_tools
        self.safe = bool(params.api_keys and params.api_keys[0]) and not opened and params.verbosity == -1
        self.loaded = {"context": params.n_ctx, "threads": params.cpuparams.n_threads, "safe": self.safe}

    def handle_completions(self, asked: dict[str, Any]) -> dict[str, Any]:
        omp = {name: os.environ.get(name) for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        seen = {"pid": os.getpid(), "asked": asked, "env": sorted(os.environ), **omp, **self.loaded}
        with self.calls.open("a") as file:
            file.write(json.dumps(seen) + "\n")
        if len(self.calls.read_text().splitlines()) in self.plan.get("die", ()):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.plan.get("refuse"):
            raise RuntimeError(self.plan["refuse"])
        time.sleep(self.plan.get("sleep", 0))
        text = self.plan.get("say") or json.dumps(self.choose(asked["json_schema"], random.Random(asked["seed"])))
        usage = {"prompt_tokens": 40, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 30}}
        return {"choices": [{"text": text, "finish_reason": "stop"}], "usage": usage}

    def choose(self, schema: dict[str, Any], dice: random.Random) -> dict[str, Any]:
        branches = [branch["properties"] for branch in schema["anyOf"]]
        first = [b for b in branches if b["tool"]["const"] not in self.plan.get("last", ())]
        branch = dice.choice(first or branches)
        blanks = branch["args"]["properties"]
        args = {name: dice.choice(said["enum"]) if "enum" in said else "a word" for name, said in blanks.items()}
        return {"tool": branch["tool"]["const"], "args": args}
