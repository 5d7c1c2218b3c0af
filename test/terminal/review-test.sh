#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Reviews a diff of three hunks in a terminal: applies two, comments on the third, and undoes the
# turn. The file after each is compared byte for byte.

set -u
cd "$(dirname "$0")/../.." || exit 1
: "${EMACS:=emacs}"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/agent-q-review.XXXXXX") || exit 1
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
  echo "review: FAILED: $1"
  screen
  exit 1
}

# Waits until a line of the screen matches; the limit only ends a test that is stuck.
await() { # PATTERN WHAT
  tries=0
  until screen | grep -q -e "$1"; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail "$2 did not come (waited for: $1)"
    sleep 0.1
  done
  echo "review: $2"
}

lines() { # NUMBER... : forty lines, those changed
  number=1
  while [ "$number" -le 40 ]; do
    case " $* " in
      *" $number "*) echo "(new $number)" ;;
      *) echo "(line $number)" ;;
    esac
    number=$((number + 1))
  done
}

holds() { # WHAT LINES...
  what=$1
  shift
  lines "$@" > "$scratch/expected"
  tries=0
  until cmp -s "$scratch/expected" "$scratch/project/three.lisp"; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "$what: the file has other bytes"
    sleep 0.1
  done
  echo "review: $what"
}

mkdir "$scratch/home" "$scratch/project"
lines > "$scratch/project/three.lisp"

binary=${CARGO_TARGET_DIR:-target}/debug/examples/scripted-server
[ -x "$binary" ] || cargo build --quiet --example scripted-server || fail 'the scripted server did not build'
mkfifo "$scratch/input" # the server ends when this closes
"$binary" test/terminal/review-script.json < "$scratch/input" > "$scratch/address" 2> "$scratch/errors" &
server=$!
exec 9> "$scratch/input"
tries=0
until [ -s "$scratch/address" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 100 ] || fail "the scripted server did not start: $(cat "$scratch/errors")"
  sleep 0.1
done
address=$(sed -n 's/^listening on //p' "$scratch/address")

cat > "$scratch/settings.el" <<LISP
(push "$PWD/lisp" load-path)
(require 'agent-q-module)
(require 'agent-q-changes)
(setq agent-q-provider '(:name "scripted" :base-url "http://$address/v1" :model "scripted")
      agent-q-log-file "$scratch/core.log"
      inhibit-startup-screen t
      default-directory "$scratch/project/")
LISP
terminal new-session -d -x 110 -y 50 \
  "env HOME='$scratch/home' LC_ALL=C.UTF-8 TERM=screen-256color \
    '$EMACS' -nw -Q -l '$scratch/settings.el' -l agent-q -f agent-q-chat 2> '$scratch/emacs.log'" ||
  fail 'tmux did not start'

await 'scripted.*Ready' 'the chat is open'
type_text 'Change three places.'
press Enter
await 'propose_file_edit waits for your answer' 'the edit asks'
await '3 of 3 hunks, +3 -3' 'its diff is shown'
press C-x o
press n
press n
press Space
await '2 of 3 hunks, +2 -2' 'the third hunk is left out'
await '\[ \] reject' 'its state is text, too'
press c
await 'Comment for the model' 'a comment is asked for'
type_text 'leave the end alone'
press Enter
await '\[ \] reject: leave the end alone' 'the comment is shown'
holds 'nothing was changed yet'
press C-c C-c
# The server only says this to a request that carries the review.
await 'Two it is then, and the end stays\.' 'the model was told'
holds 'two of three hunks are applied' 2 20
press M-x
type_text 'agent-q-undo-turn'
press Enter
holds 'the turn is undone'
