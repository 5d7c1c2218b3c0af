#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Looks at Lisp code of an answer that a real image has checked: what is marked, what the echo area says,
# and the keys that a source buffer has. Then completes a symbol at the prompt.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=proofread
. test/terminal/support.sh

escape=$(printf '\033')
marked() { terminal capture-pane -e -p -t 0 | grep -q -e "$escape\[[0-9;:]*4[0-9;:]*m$1"; } # TEXT

open_chat_with_lisp test/terminal/proofread-script.json 100 40 ''
type_text 'How do I add them?'
press Enter
await 'That is all' 'the answer is there'
patiently 'an unknown function is not marked' marked 'sum-up'
marked 'total' || fail 'an argument too many is not marked'
marked 'mapcar' || fail 'missing arguments are not marked'
marked 'reduce' && fail 'what is right is marked'
echo 'proofread: what is wrong is underlined'

press C-r
type_text '(sum-up'
press Enter
press C-f C-f
await 'There is no function or macro SUM-UP' 'the echo area says why'
press M-m C-f
press C-n
press C-f
await 'MAPCAR takes at least 2 arguments, not 1' 'and how many arguments'
press C-c C-d d
await 'MAPCAR names a compiled function' 'the symbol is described'
press C-x 1
press C-r
type_text 'reduce'
press Enter
press C-f
await '^(reduce FUNCTION SEQUENCE' 'arguments are in the echo area'

press M-'>'
type_text 'and (multiple-value-b'
press TAB
await '> and (multiple-value-bind' 'a symbol is completed at the prompt'
press C-x C-c
