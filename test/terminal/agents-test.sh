#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What docs/manual.org says of other agents, with the lines of an init file that it gives: an agent redefines a function
# in the image that the user runs through SLIME or SLY, the list of changes names it and takes it back, and the
# agent's bridge finds Emacs again after it was killed.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=agents
. test/terminal/support.sh

[ "$(uname)" = Linux ] || { echo 'agents: skipped: processes are looked up in /proc'; exit 0; }

start_emacs() {
  terminal new-session -d -x 90 -y 40 -c "$place/project" \
    "env HOME='$place/home' XDG_RUNTIME_DIR='$place/run' LC_ALL=C.UTF-8 TERM=screen-256color \
      $terminal_emacs -l '$place/init.el' bank.lisp 2>> '$place/emacs.log'" || fail 'tmux did not start'
  await 'defun aq-rate' 'Emacs is there'
  command_ "$client"
  await 'CL-USER>' "so is the image, through $client"
}
command_() { press M-x; type_text "$1"; press Enter; }

# Asks for METHOD and waits until the answer matches PATTERN.
ask() { # METHOD PARAMS PATTERN
  asked=$((asked + 1))
  printf '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' "$asked" "$1" "$2" >&8
  patiently "$1 was not answered" grep -q "\"id\":$asked[,}]" "$place/answers"
  grep "\"id\":$asked[,}]" "$place/answers" | grep -q -e "$3" ||
    fail "the answer to $1 is another one: $(grep "\"id\":$asked[,}]" "$place/answers")"
}
form() { # FORM PATTERN
  ask tools/call '{"name":"eval_form","arguments":{"form":"'"$1"'"}}' "$2"
}

redefine_and_restart() { # CLIENT ITS-FOLDER
  client=$1
  place=$scratch/$client
  asked=0
  mkdir -p "$place/home/.cache" "$place/project"
  mkdir -m 700 "$place/run"
  echo '(defun aq-rate () 1)' > "$place/project/bank.lisp"
  cat > "$place/init.el" <<LISP
(add-to-list 'load-path "$PWD/lisp")
(require 'agent-q-module)
(agent-q-mcp-mode 1)
(add-to-list 'load-path "$2")
(require '$client-autoloads)
(setq inferior-lisp-program "sbcl --no-userinit --no-sysinit"
      $client-kill-without-query-p t
      agent-q-log-file "$place/core.log"
      inhibit-startup-screen t)
LISP

  mkfifo "$place/host"
  bridge=$PWD/lisp/agent-q-mcp
  (cd "$place/project" && XDG_RUNTIME_DIR="$place/run" exec "$bridge" \
    < "$place/host" > "$place/answers" 2> "$place/errors") &
  exec 8> "$place/host"

  start_emacs
  ask initialize '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"claude-code","version":"1"}}' agent-q
  type_text '(defun aq-rate () 1)'
  press Enter
  await '^AQ-RATE' 'the user has defined a function'
  form '(aq-rate)' '=> 1'
  ask tools/call '{"name":"compile_form","arguments":{"form":"(defun aq-rate () 2)"}}' 'Compiled and loaded'
  form '(aq-rate)' '=> 2'
  echo 'agents: the agent redefined it'

  command_ agent-q-changes-in-image
  await 'AQ-RATE .*agent-q: claude' 'the list of changes has it, and whose it is'

  command_ agent-q-changes-image-restore
  await 'AQ-RATE .*undone' 'it is taken back'
  form '(aq-rate)' '=> 1'
  echo 'agents: the image has the definition of before'

  emacs=$(terminal list-panes -a -F '#{pane_pid}')
  kill -9 "$emacs" 2>/dev/null
  patiently 'Emacs is still there' sh -c "! kill -0 $emacs 2>/dev/null"
  end_terminal
  form '(aq-rate)' 'Emacs is not running\|Emacs went away'
  echo 'agents: the agent hears at once that Emacs is gone'
  start_emacs
  form '(+ 40 2)' '=> 42'
  echo 'agents: and works on in the Emacs that was started again'

  exec 8>&-
  press C-x C-c
  patiently 'Emacs does not end' sh -c "! tmux -S '$socket' has-session 2>/dev/null"
  end_terminal
}

for ide in slime sly; do
  found=$("$EMACS" -Q --batch -l scripts/lisp-ide.el --eval "(princ (or (agent-q-ide-find '$ide) \"\"))" 2>/dev/null)
  if [ -n "$found" ]; then
    redefine_and_restart "$ide" "$found"
  else
    echo "agents: skipped: $ide was not found"
  fi
done
echo 'agents: passed'
