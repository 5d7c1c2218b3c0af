#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Types a message with three mentions, completed by TAB: a file of the project, a symbol of the image, and
# what was evaluated. Then looks at what is attached, at the list of the context, and at a mention of
# something that is not there.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=mention
. test/terminal/support.sh

open_chat_with_lisp test/terminal/mention-script.json 100 40 ''
press C-x 1
type_text '/eval_form (* 6 7)'
press Enter
await '42' 'something was evaluated'

type_text 'Read @fi'
press TAB
await '> Read @file:' 'the kind is completed'
type_text 'scripts/chat.e'
press TAB
await '> Read @file:scripts/chat.el ([0-9.]* kB)' 'the file is completed, and marked with its size'
type_text 'and @symbol:multiple-value-b'
press TAB
await 'and @symbol:multiple-value-bind' 'the symbol came from the image'
press C-a C-k
type_text 'Read @file:scripts/chat.el and @symbol:multiple-value-bind and @repl, please.'
press Enter
await 'All three are there' 'the message was sent'
shows '^  ▸ @file:scripts/chat.el  ' || fail 'the file is not shown under the message'
shows '^  ▸ @symbol:multiple-value-bind  ' || fail 'the symbol is not'
shows '^  ▸ @repl  ' || fail 'the evaluations are not'
grep -q 'from=\\"file scripts/chat.el\\"' "$scratch/requests" || fail 'the file was not sent'
grep -q 'from=\\"the image on the symbol multiple-value-bind\\"' "$scratch/requests" ||
  fail 'the symbol was not sent'
grep -q '(\* 6 7)' "$scratch/requests" || fail 'what was evaluated was not sent'
echo 'mention: three mentions are attached'

type_text '/context'
press Enter
await 'sent at .*@repl' 'the list of the context shows them'
press q

type_text 'See @file:nothing.here'
press Enter
await 'Not sent.  @file:nothing.here: there is no such file' 'what is not there is said'
shows '^> See @file:nothing.here' || fail 'the message is lost'
press C-a C-k
type_text '/nosuch'
press Enter
await 'No tool, command or prompt is called /nosuch' 'so is an unknown command'
press C-x C-c
