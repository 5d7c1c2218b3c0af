# SPDX-License-Identifier: GPL-3.0-or-later
# What the terminal tests share: a terminal of their own, keys that go in and a screen that comes out,
# and the scripted server. To be read by a test that has set `name', in the project's root.

: "${EMACS:=emacs}"

# How Emacs is started in a terminal. Its own libraries would be compiled to native code again in each
# test's new home, beside what the test waits for.
terminal_emacs="'$EMACS' -nw -Q --eval '(setq native-comp-deferred-compilation nil native-comp-jit-compilation nil)'"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/agent-q-$name.XXXXXX") || exit 1
server=''
terminals=0
socket=$scratch/tmux
terminal() { tmux -u -S "$socket" -f /dev/null "$@"; }

# Ends the terminal with all that runs in it. The next one has a socket of its own, as the server of this
# one may still be ending.
end_terminal() {
  terminal kill-server 2>/dev/null
  terminals=$((terminals + 1))
  socket=$scratch/tmux-$terminals
}

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

# Opens a chat in an Emacs of COLUMNS and LINES, with the server for its model. No Lisp is connected.
# `locale' and `terminal_type' may be set before. SETTING is Lisp text, variables and their values.
open_chat() { # SCRIPT COLUMNS LINES [SETTING]
  mkdir -p "$scratch/home" "$scratch/project"
  start_server "$1"
  cat > "$scratch/settings.el" <<LISP
(push "$PWD/lisp" load-path)
(require 'agent-q-module)
(require 'agent-q-changes)
(setq agent-q-provider '(:name "scripted" :base-url "http://$address/v1" :model "scripted")
      agent-q-log-file "$scratch/core.log"
      inhibit-startup-screen t
      default-directory "$scratch/project/"
      ${4:-})
LISP
  terminal new-session -d -x "$2" -y "$3" \
    "env HOME='$scratch/home' LC_ALL=${locale:-C.UTF-8} TERM=${terminal_type:-screen-256color} \
      $terminal_emacs -l '$scratch/settings.el' -l agent-q -f agent-q-chat 2> '$scratch/emacs.log'" ||
    fail 'tmux did not start'
  await 'Ready.*scripted' 'the chat is open'
}

# Opens what `make chat' opens, with the server for its model and SBCL through SLIME. SETTING is Lisp
# text, a variable and its value.
open_chat_with_lisp() { # SCRIPT COLUMNS LINES SETTING
  # An empty folder stands where SLY would be looked for.
  mkdir -p "$scratch/home" "$scratch/no-sly"
  start_server "$1"
  cat > "$scratch/settings.el" <<LISP
(setq agent-q-provider '(:name "scripted" :base-url "http://$address/v1" :model "scripted")
      agent-q-log-file "$scratch/core.log"
      agent-q-echo-evaluations nil
      agent-q-try-folder "$PWD/"
      $4)
LISP
  terminal new-session -d -x "$2" -y "$3" \
    "env HOME='$scratch/home' LC_ALL=C.UTF-8 TERM=screen-256color SLY_DIR='$scratch/no-sly' \
      $terminal_emacs -l scripts/chat.el -l '$scratch/settings.el' -f agent-q-try \
      2> '$scratch/emacs.log'" || fail 'tmux did not start'
  await 'Ready.*sbcl.*scripted (scripted)' 'the chat is open, with its model and its image'
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
