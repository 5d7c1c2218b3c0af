#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What README says of other agents, with the lines of an init file that it gives: an agent redefines a function
# in the image that the user runs through SLIME, the list of changes names it and takes it back, and the
# agent's bridge finds Emacs again after it was killed.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=agents
. test/terminal/support.sh

slime=$("$EMACS" -Q --batch -l scripts/lisp-ide.el --eval "(princ (or (agent-q-ide-find 'slime) \"\"))" 2>/dev/null)
[ -n "$slime" ] || { echo 'agents: skipped: SLIME was not found'; exit 0; }
[ "$(uname)" = Linux ] || { echo 'agents: skipped: processes are looked up in /proc'; exit 0; }

mkdir -p "$scratch/home/.cache" "$scratch/project"
mkdir -m 700 "$scratch/run"
echo '(defun aq-rate () 1)' > "$scratch/project/bank.lisp"
cat > "$scratch/init.el" <<LISP
(add-to-list 'load-path "$PWD/lisp")
(require 'agent-q-module)
(agent-q-mcp-mode 1)
(add-to-list 'load-path "$slime")
(require 'slime-autoloads)
(setq inferior-lisp-program "sbcl --no-userinit --no-sysinit"
      slime-kill-without-query-p t
      agent-q-log-file "$scratch/core.log"
      inhibit-startup-screen t)
LISP
start_emacs() {
  terminal new-session -d -x 90 -y 40 -c "$scratch/project" \
    "env HOME='$scratch/home' XDG_RUNTIME_DIR='$scratch/run' LC_ALL=C.UTF-8 TERM=screen-256color \
      '$EMACS' -nw -Q -l '$scratch/init.el' bank.lisp 2>> '$scratch/emacs.log'" || fail 'tmux did not start'
  await 'defun aq-rate' 'Emacs is there'
  command_ slime
  await 'CL-USER>' 'so is the image'
}
command_() { press M-x; type_text "$1"; press Enter; }

mkfifo "$scratch/host"
bridge=$PWD/lisp/agent-q-mcp
(cd "$scratch/project" && XDG_RUNTIME_DIR="$scratch/run" exec "$bridge" \
  < "$scratch/host" > "$scratch/answers" 2> "$scratch/errors") &
exec 8> "$scratch/host"
asked=0
# Asks for METHOD and waits until the answer matches PATTERN.
ask() { # METHOD PARAMS PATTERN
  asked=$((asked + 1))
  printf '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' "$asked" "$1" "$2" >&8
  patiently "$1 was not answered" grep -q "\"id\":$asked[,}]" "$scratch/answers"
  grep "\"id\":$asked[,}]" "$scratch/answers" | grep -q -e "$3" ||
    fail "the answer to $1 is another one: $(grep "\"id\":$asked[,}]" "$scratch/answers")"
}
form() { # FORM PATTERN
  ask tools/call '{"name":"eval_form","arguments":{"form":"'"$1"'"}}' "$2"
}

start_emacs
ask initialize '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"claude-code","version":"1"}}' agent-q
type_text '(defun aq-rate () 1)'
press Enter
await '^AQ-RATE' 'the user has defined a function'
form '(aq-rate)' '=> 1'
ask tools/call '{"name":"compile_form","arguments":{"form":"(defun aq-rate () 2)"}}' AQ-RATE
form '(aq-rate)' '=> 2'
echo 'agents: the agent redefined it'

command_ agent-q-image-changes
await 'AQ-RATE .*agent-q: claude' 'the list of changes has it, and whose it is'

command_ agent-q-image-changes-restore
await 'AQ-RATE .*undone' 'it is taken back'
form '(aq-rate)' '=> 1'
echo 'agents: the image has the definition of before'

emacs=$(terminal list-panes -a -F '#{pane_pid}')
kill -9 "$emacs" 2>/dev/null
patiently 'Emacs is still there' sh -c "! kill -0 $emacs 2>/dev/null"
terminal kill-server 2>/dev/null
form '(aq-rate)' 'Emacs is not running\|Emacs went away'
echo 'agents: the agent hears at once that Emacs is gone'
start_emacs
form '(+ 40 2)' '=> 42'
echo 'agents: and works on in the Emacs that was started again'

exec 8>&-
press C-x C-c
echo 'agents: passed'
