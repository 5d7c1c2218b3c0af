#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Asking from a source buffer, the first lines of a chat, the queue, and lists in 80 columns, by keys.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=reach
. test/terminal/support.sh

mkdir -p "$scratch/project"
printf '(in-package :cl-user)\n\n(defun transfer (x)\n  (* 2 x))\n' > "$scratch/project/bank.lisp"
echo '(defsystem "bank")' > "$scratch/project/bank.asd"

open_chat test/terminal/reach-script.json 80 24
press C-x 1
await '^agent-q, in .*project/' 'the first lines name the project'
await '^Image  none' 'they say that no Lisp is connected'
await '^Model  scripted (scripted)' 'and which model there is'
await '\[/get_project_root\]' 'and what to try'
await '^ Ready . project . no Lisp . scripted (scripted)' 'the header begins with the state'

# From a source buffer; the selected window stays.
press C-x C-f
type_text 'bank.lisp'
press Enter
await 'defun transfer' 'the source is shown'
press C-n C-n C-n C-n C-b
press M-x
type_text 'agent-q-ask'
press Enter
await 'Ask about defun transfer (bank.lisp:3)' 'the question is read, with what it is about'
type_text 'What is this for?'
press Enter
await '^It doubles its argument\.' 'the answer comes beside'
await '  about defun transfer (bank.lisp:3)' 'what was sent along is named'
type_text ';x'
await '(\* 2 x));x' 'keys still go to the source'
press C-_
press C-x o
press C-x 1
await '\*agent-q: project: ' 'the chat is named by its project and its title'

# The queue, and typing in the log.
type_text 'Be slow.'
press Enter
await '^> Be slow\.' 'the turn began'
press M-'<'
type_text 'and the second'
press C-c C-c
await '^Queued: and the second' 'what waits is shown; C-c C-c cancelled nothing'
press C-c C-q
await '^> and the second' 'it comes back to the prompt'
press Enter
await '^The slow answer\.' 'the turn went on'
await '^The second answer\.' 'then it is sent'

# The menu.
press C-c C-o
await 'Cancel the turn' 'the menu shows its commands'
press T
await 'Offered' 'and opens a list'
press C-x 1
for column in Offered Tool Level Calls Description; do
  await "$column" "the column $column is within 80 columns"
done
screen | grep -q '[$]$' && shows 'Categories' && fail 'the list is too wide'

press C-x C-c
