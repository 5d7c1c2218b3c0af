#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Drives Emacs in a terminal as a person would: what `make chat' opens, with the scripted server as
# the model and SBCL as the image. Keys go in through tmux; what counts is what the screen shows.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=terminal
. test/terminal/support.sh

open_chat_with_lisp test/terminal/script.json 100 34 "agent-q-eval-policy 'ask-always"

type_text 'What is 37 times 27?'
press Enter
await 'Let me ask the image' 'the answer streams'
await 'Run eval_form?' 'the call asks'
await 'form: (\* 37 (+ 3 24))' 'the form is shown'

# Emacs goes on working while the question is open.
press M-x
type_text 'emacs-version'
press Enter
await 'GNU Emacs [0-9]' 'Emacs answers other keys meanwhile'
screen | grep -q 'Run eval_form?' || fail 'the request did not wait'

press C-c C-a
# A key that comes before the request could be read counts as nothing; then it is pressed again.
tries=0
while screen | grep -q 'Run eval_form?'; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'y did not approve the call'
  press y
  sleep 0.5
done
await 'eval_form (\* 37 (+ 3 24)) ⇒ 999.* [0-9.]* *m\{0,1\}s' 'the approved call ran, and its line has the value'
# The server answers only a request that carries the image's result, 999.
await 'The image answered, so that is settled\.' 'the answer is on the screen'
await 'Ready' 'the turn is over'

press BTab
press Tab
await '999' 'the unfolded call shows what the image returned'

# Typing in the log goes to the prompt.
type_text '#'
await '^> #$' 'typing in the log goes to the prompt'
press BSpace
type_text '/describe_symbol mapcar'
press Enter
await 'describe_symbol mapcar .*[0-9] *m\{0,1\}s' 'the console calls a tool without the model'

press C-x C-c
await_end() {
  tries=0
  while terminal has-session 2>/dev/null; do
    screen | grep -q 'exit anyway\|(y or n)\|(yes or no)' && { type_text 'yes'; press Enter; }
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail 'Emacs did not end'
    sleep 0.1
  done
  echo 'terminal: Emacs ends'
}
await_end
