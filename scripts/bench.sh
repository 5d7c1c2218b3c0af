#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Measures, each figure beside a baseline of the same run, and fails where a target is missed; prints one
# table. Each measurement is a fresh Emacs; RUNS=n says how often, ONLY='stream idle' which.

set -eu
cd "$(dirname "$0")/.."
: "${EMACS:=emacs}" "${RUNS:=5}" "${ONLY:=stream looks byte load cancel image edit second mcp idle tools decode files chats}"
# The group `compare' is measured on demand alone, as it needs packages of others.

command -v tmux >/dev/null || {
  echo 'bench: tmux is missing, in which the terminal Emacsen run' >&2
  exit 1
}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/agent-q-bench.XXXXXX")
socket=none
terminals=0
failed=0
end_terminal() {
  tmux -L "$socket" kill-server 2>/dev/null || true
}
cleanup() {
  end_terminal
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

cargo build --release --quiet --example scripted-server
cp test/bench/*.el scripts/lisp-ide.el "$scratch"
: > "$scratch/empty-library.el"
: > "$scratch/samples"
"$EMACS" -Q --batch -L lisp -L "$scratch" -f batch-byte-compile "$scratch"/*.el 2> "$scratch/compile.log" || {
  cat "$scratch/compile.log" >&2
  exit 1
}

AGENT_Q_BENCH_SCRATCH=$scratch
AGENT_Q_BENCH_SERVER=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/release/examples/scripted-server
export AGENT_Q_BENCH_SCRATCH AGENT_Q_BENCH_SERVER

# Nothing may hang for ever; the limits are far above what anything takes.
within() { # SECONDS COMMAND...
  if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift && "$@"; fi
}

wanted() { # GROUP
  case " $ONLY " in *" $1 "*) ;; *) return 1 ;; esac
}

repeat() { # N COMMAND...
  count=$1
  shift
  while [ "$count" -gt 0 ]; do
    "$@"
    count=$((count - 1))
  done
}

# An Emacs that compiles natively would do that while it is measured, and differ from run to run.
byte_code="--eval '(setq load-no-native t native-comp-deferred-compilation nil native-comp-jit-compilation nil)'"

# Emacs with the packages of whoever measures, and nothing else of theirs.
with_packages="-q --no-splash --eval '(progn (require (quote package)) (package-activate-all))'"

command_line() { # LIBRARY
  case "$AGENT_Q_BENCH" in gptel*) start=$with_packages ;; *) start=-Q ;; esac
  printf '%s' "'$EMACS' $start $byte_code -L '$PWD/lisp' -L '$scratch' -l $1 -f $1-main"
}

note_failure() { # WHAT
  echo "bench: $1: $(cat "$scratch/failure" 2>/dev/null || echo 'did not come to its end')" >&2
  rm -f "$scratch/failure"
  failed=$((failed + 1))
}

in_batch() { # LIBRARY WHAT
  export AGENT_Q_BENCH="$2"
  within 300 sh -c "$(command_line "$1") --batch" > "$scratch/output" 2>&1 < /dev/null || note_failure "$1 $2"
}

start_terminal() { # LIBRARY WHAT
  export AGENT_Q_BENCH="$2"
  # A server of its own: the last one may still be ending.
  terminals=$((terminals + 1))
  socket=agent-q-bench-$$-$terminals
  tmux -L "$socket" -f /dev/null new-session -d -x 100 -y 30 \
    "$(command_line "$1") -nw; tmux -L $socket wait-for -S done"
}

in_terminal() { # LIBRARY WHAT
  start_terminal "$1" "$2"
  within 120 tmux -L "$socket" wait-for "done" || echo 'it hung' > "$scratch/failure"
  end_terminal
  [ ! -f "$scratch/failure" ] || note_failure "$1 $2"
}

switches() { # PID -> how often its threads have gone to sleep and been woken
  cat /proc/"$1"/task/*/status | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum + 0 }'
}

idle_wakes() { # WAY
  rm -f "$scratch/idle"
  start_terminal idle-bench "$1"
  patience=100
  while [ ! -s "$scratch/idle" ] && [ "$patience" -gt 0 ]; do
    sleep 0.2
    patience=$((patience - 1))
  done
  idle=$(cat "$scratch/idle" 2>/dev/null || true)
  if [ -n "$idle" ] && [ -d "/proc/$idle" ]; then
    # Threads that had something to do end after 10 s, and take their count with them.
    sleep 12
    before=$(switches "$idle")
    sleep 5
    echo "idle.$1 $(($(switches "$idle") - before))" >> "$scratch/samples"
  else
    note_failure "idle-bench $1"
  fi
  end_terminal
}

stream() {
  # In turns, so that what else the machine does meets all of them.
  for what in 'rest small 0' 'filter small 0' 'chat small 0' 'chat small 1000000' \
    'filter markdown 0' 'chat markdown 0' 'chat markdown 1000000' 'chat markdown 100calls' \
    'messages markdown 0' 'responses markdown 0' 'gemini markdown 0' 'ollama markdown 0' \
    'filter tables 0' 'chat tables 0' 'filter megabyte 0' 'chat megabyte 0' 'draft small 0' \
    'rest small 0 keys' 'chat markdown 0 keys' 'filter line 0' 'chat line 0' \
    'chat small 0 busy' 'filter small 0 busy' 'chat markdown 0 busy' 'filter markdown 0 busy' \
    'filter large 0' 'chat large 0' 'chat calls 0'; do
    in_terminal stream-bench "$what"
  done
}

looks() {
  for what in 'plain markdown 0' 'looks markdown 0' 'plain markdown 0 busy' 'looks markdown 0 busy' \
    'pages names 0'; do in_terminal stream-bench "$what"; done
}

resume() {
  # In turns, so that what else the machine does meets both.
  for what in 'resume chat 0' 'rest small 0'; do in_terminal stream-bench "$what"; done
}

ide_there() { # sly|slime
  [ -n "$("$EMACS" -Q --batch -l scripts/lisp-ide.el \
    --eval "(princ (or (agent-q-ide-find '$1) \"\"))" 2>/dev/null)" ]
}

gptel_there() {
  sh -c "'$EMACS' $with_packages --batch --eval \
    '(kill-emacs (if (and (locate-library \"gptel\") (locate-library \"markdown-mode\")) 0 1))'" \
    > /dev/null 2>&1
}

compare() {
  in_terminal stream-bench 'chat markdown 0'
  in_terminal stream-bench 'gptel markdown 0'
}

if wanted compare; then
  if gptel_there; then
    repeat "$RUNS" compare
  else
    echo 'bench: gptel and markdown-mode are not both among the packages of your Emacs (M-x package-install), so nothing is compared with them' >&2
  fi
fi
if wanted stream; then repeat "$RUNS" stream; fi
if wanted looks; then
  if ide_there sly || ide_there slime; then
    repeat "$RUNS" looks
  else
    echo 'bench: neither SLY nor SLIME was found, so names are not measured' >&2
  fi
fi
if wanted byte; then
  in_terminal first-byte-bench filter
  in_terminal first-byte-bench chat
fi
if wanted load; then
  repeat "$((RUNS * 2))" in_batch load-bench load
  in_batch load-bench history
  in_batch load-bench turns
  for way in filter chat; do repeat 2 in_batch load-bench "memory $way 10000000"; done
fi
if wanted cancel; then in_batch cancel-bench all; fi
if wanted image; then
  for ide in sly slime; do
    if ide_there "$ide"; then
      in_batch image-bench "$ide"
    else
      echo "bench: $ide was not found, so nothing is measured through it" >&2
    fi
  done
fi
if wanted edit; then
  for ide in sly slime; do
    if ide_there "$ide"; then in_batch edit-bench "$ide"; fi
  done
fi
if wanted second; then
  for ide in sly slime; do
    if ide_there "$ide"; then in_batch second-bench "$ide"; fi
  done
fi
if wanted mcp; then
  cargo build --release --quiet --example bench_mcp
  AGENT_Q_BENCH_MCP=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/release/examples/bench_mcp
  export AGENT_Q_BENCH_MCP
  for ide in sly slime; do
    if ide_there "$ide"; then in_batch mcp-bench "$ide"; fi
  done
fi
if wanted tools; then
  in_batch tools-bench tools
  cargo build --release --quiet --example tool-server
  cargo run --release --quiet --example bench_tools >> "$scratch/samples" || note_failure bench_tools
fi
if wanted decode; then
  cargo run --release --quiet --example bench_streams >> "$scratch/samples" || note_failure bench_streams
fi
if wanted files; then
  AGENT_Q_BENCH_TREE=$scratch/tree
  export AGENT_Q_BENCH_TREE
  cargo run --release --quiet --example bench_files -- "$AGENT_Q_BENCH_TREE" >> "$scratch/samples" ||
    note_failure bench_files
  # In turns, so that what else the machine does meets all of them.
  for what in rest grep search rest grep search rest grep search diff; do
    in_terminal files-bench "$what"
  done
fi
if wanted chats; then
  AGENT_Q_BENCH_CHATS=$scratch/chats
  export AGENT_Q_BENCH_CHATS
  cargo run --release --quiet --example bench_chats -- "$AGENT_Q_BENCH_CHATS" >> "$scratch/samples" ||
    note_failure bench_chats
  repeat "$RUNS" resume
  in_batch load-bench resume
fi
if wanted idle && [ -d /proc/self/task ]; then
  cargo build --release --quiet --example tool-server
  for way in bare chat servers bare chat servers bare chat servers; do idle_wakes "$way"; done
fi

uname -sm
missed=0
"$EMACS" -Q --batch -L "$scratch" -l report-bench -f report-bench-main || missed=1
[ "$failed" -eq 0 ] || echo "$failed measurements failed"
[ "$failed" -eq 0 ] && [ "$missed" -eq 0 ]
