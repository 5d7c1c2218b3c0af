#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The tour as `make chat' opens it where there is no model: in 80 columns and 24 lines, without colours, by
# keys.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=tour
. test/terminal/support.sh

# An empty folder stands where SLY would be looked for; model servers of this machine don't count.
mkdir -p "$scratch/home" "$scratch/no-sly"
cat > "$scratch/settings.el" <<LISP
(require 'agent-q-provider)
(setq agent-q-providers nil auth-sources nil
      agent-q-log-file "$scratch/core.log")
(fset 'agent-q-provider-discover (lambda (function) (funcall function nil)))
LISP
terminal new-session -d -x 80 -y 24 \
  "env HOME='$scratch/home' LC_ALL=C.UTF-8 TERM=vt100 SLY_DIR='$scratch/no-sly' \
    $terminal_emacs -l scripts/chat.el -l '$scratch/settings.el' -f agent-q-try 2> '$scratch/emacs.log'" ||
  fail 'tmux did not start'

await "Tour: write its small Lisp project into" 'the tour asks for a folder'
press Enter
await '^Tour 1/9: Ask ' 'the guide is there'
await '^> What does transfer do?' 'the question stands at the prompt'
await 'tour (scripted)' 'the header says that words are scripted'
press Enter
await '^Tour 2/9' 'the question was answered'
shows '"Ann has 5\."' || fail 'the value came from somewhere else'
press Enter
await '^Tour 3/9' 'a tool was called'
await "^> Write Ann's statement" 'the next message stands there'
press Enter
await 'Press a key here or at the empty prompt' 'the request is whole below the guide'
shows '^? The running code wants to write' || fail 'its first line is out of sight'
tries=0
until shows '^Tour 4/9'; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'y did not answer'
  press y
  sleep 1
  # What came too early stands there as text, and what follows would be text, too.
  if shows '^> y'; then press BSpace; sleep 1.5; fi
done
[ -e "$scratch/home/agent-q-tour/statement.txt" ] || fail 'no file was written'
if terminal capture-pane -e -p -t 0 | grep -q "$(printf '\033')\[[0-9;]*3[0-7]m"; then
  fail 'there are colours'
fi
# The guide is left by its own key, and the chat stays.
press C-x o
press q
await 'M-x agent-q-tutorial continues the tour' 'the tour is left'
shows '^Tour ' && fail 'the guide is still there'
press M-x
type_text 'agent-q-tutorial'
press Enter
await 'ontinue, start ' 'it offers to continue'
press c
await '^Tour 4/9' 'and goes on where it was'
press C-x C-c
