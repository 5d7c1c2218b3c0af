# SPDX-License-Identifier: GPL-3.0-or-later
# What the terminal tests share: a terminal of their own, keys that go in and a screen that comes out,
# and the scripted server. To be read by a test that has set `name', in the project's root.

: "${EMACS:=emacs}"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/agent-q-$name.XXXXXX") || exit 1
server=''
terminal() { tmux -u -S "$scratch/tmux" -f /dev/null "$@"; }

finish() {
  terminal kill-server 2>/dev/null
  [ -z "$server" ] || kill "$server" 2>/dev/null
  # Emacs may still be writing while it goes away.
  rm -rf "$scratch" 2>/dev/null || { sleep 1; rm -rf "$scratch"; }
}
trap finish EXIT
trap 'exit 130' INT TERM

screen() { terminal capture-pane -p -t 0 2>/dev/null; }
press() { terminal send-keys -t 0 "$@"; }
type_text() { terminal send-keys -t 0 -l "$1"; }

fail() { # WHAT
  echo "$name: FAILED: $1"
  echo '---- the screen'
  screen
  [ ! -e "$scratch/requests" ] || { echo '---- the requests'; cat "$scratch/requests"; }
  exit 1
}

# Waits until COMMAND succeeds; PROBLEM is said when it doesn't. The limit only ends a test that is
# stuck.
patiently() { # PROBLEM COMMAND...
  problem=$1
  shift
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail "$problem"
    sleep 0.1
  done
}

shows() { screen | grep -q -e "$1"; } # PATTERN

# Waits until a line of the screen matches.
await() { # PATTERN WHAT
  patiently "$2 did not come (waited for: $1)" shows "$1"
  echo "$name: $2"
}

# Starts the scripted server; its place is in `address' then.
start_server() { # SCRIPT
  binary=${CARGO_TARGET_DIR:-target}/debug/examples/scripted-server
  [ -x "$binary" ] || cargo build --quiet --example scripted-server || fail 'the scripted server did not build'
  mkfifo "$scratch/input" # the server ends when this closes
  "$binary" "$1" --requests "$scratch/requests" \
    < "$scratch/input" > "$scratch/address" 2> "$scratch/errors" &
  server=$!
  exec 9> "$scratch/input"
  patiently 'the scripted server did not start' test -s "$scratch/address"
  address=$(sed -n 's/^listening on //p' "$scratch/address")
}
