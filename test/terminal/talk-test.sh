#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What a user meets who just talks: keys that a server refuses, messages typed while an answer is written,
# reading further up meanwhile, one that goes into the running turn, what that may cost, the effort of
# the model, and the list of models.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=talk
. test/terminal/support.sh

gone() { ! shows "$1"; } # PATTERN

send() { # TEXT
  type_text "$1"
  press Enter
}

open_chat test/terminal/talk-script.json 80 24 "agent-q-max-turn-cost 0.5
      agent-q-provider (append agent-q-provider '(:models ((\"scripted\" :prices (1 2)))))"
press C-x 1
send 'first'
await '127.0.0.1.*401' 'a refused key is said, with the host and the code'
await '\[Try again\]' 'and can be tried again'
send 'second'
await '404' 'a missing model is said'

# Who reads further up stays there, and so does the window, while the answer grows.
send 'third'
await '^Line 12' 'an answer begins'
send 'the second'
await '^Queued: the second' 'a message sent meanwhile is shown to wait'
send 'the third'
await '^Queued: the third' 'so is another'
press C-u C-c C-q
await 'Drop' 'a queued message can be dropped'
send '2. the third'
patiently 'it still waits' gone '^Queued: the third'
press C-c C-q
await '^> the second' 'or edited'
type_text ', changed'
press Enter
await '^Queued: the second, changed' 'and sent again'
press C-c C-p
await '^> third' 'the user goes to the question'
sleep 0.5
before=$(screen | sed -n 3,12p) place=$(terminal display -p -t 0 '#{cursor_x},#{cursor_y}')
patiently 'the turn did not end' grep -q 'the second, changed' "$scratch/requests"
sleep 1
[ "$(screen | sed -n 3,12p)" = "$before" ] || fail 'the window moved while the answer grew'
[ "$(terminal display -p -t 0 '#{cursor_x},#{cursor_y}')" = "$place" ] || fail 'the cursor moved while the answer grew'
echo 'talk: window and cursor stayed where they were'
press M-\>
await 'Heard' 'the queued message was sent'

press C-c C-t
await 'Effort (default the provider' 'C-c C-t asks for an effort'
type_text 'high'
press Enter
await 'scripted (scripted), high effort' 'which the header shows'
send 'look around'
await '^Looking' 'the model answers'
type_text 'and this'
press M-Enter
await '^Next step: and this' 'M-RET puts a message into the running turn'
await 'used \$0\.60 (agent-q-max-turn-cost)' 'the turn asks at its cost'
screen | sed -n 2p | grep -q 'Continue?.*\$0\.60' || fail 'the header does not say what was paid'
send 'y'
# The server answers this request only with the effort and the message in it.
await 'used another \$0\.60' 'y lets it go on, until it has cost as much again'
shows '^> and this$' || fail 'the message is not in the log'
press C-c C-a Down
await '^\[Stop\]' 'C-c C-a goes to the buttons'
press Enter
await 'It was stopped' 'one of which stops the turn'
press M-\>

press C-c C-v
await 'Model' 'C-c C-v asks for a model'
press Tab Tab
await 'scripted-large' 'all models of the host are offered'
press C-g C-g

press C-x C-c
