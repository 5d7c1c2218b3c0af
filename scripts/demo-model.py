# SPDX-License-Identifier: GPL-3.0-or-later
# Serves the demo model on a loopback port with llama.cpp's own server, until standard input ends:
# so it never outlives whoever started it. Usage: demo-model.py WEIGHTS TEMPLATE [PORT]

import pathlib
import socket
import sys

import xllamacpp


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parameters(weights: str, template: str, port: int) -> xllamacpp.CommonParams:
    """Return the server's settings: small, quiet, one conversation at a time."""
    settings = xllamacpp.CommonParams()
    settings.model.path = weights
    settings.model_alias = {"smollm2-135m"}
    settings.chat_template = pathlib.Path(template).read_text(encoding="utf-8")
    settings.use_jinja = True
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.n_ctx = 8192
    settings.n_parallel = 1
    settings.cpuparams.n_threads = 2
    settings.warmup = False
    return settings


def main() -> None:
    weights, template = sys.argv[1:3]
    port = int(sys.argv[3]) if len(sys.argv) > 3 else free_port()
    server = xllamacpp.Server(parameters(weights, template, port))
    print(f"ready {server.listening_address}/v1", flush=True)
    sys.stdin.read()


main()
