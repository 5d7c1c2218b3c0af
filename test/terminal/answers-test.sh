#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Answers three requests in a terminal by keys that repeat, that are typed at the prompt, and that are
# meant; then looks at what is shown of calls that were denied or failed.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=answers
. test/terminal/support.sh

open_chat test/terminal/answers-script.json 80 50

waiting() { # NUMBER : how many requests the screen shows
  [ "$(screen | grep -c '^? ')" -eq "$1" ]
}

press C-x 1
type_text 'Make three files.'
press Enter
patiently 'three requests did not come' waiting 3
await '3 wait' 'the header counts them'
shows '^? Apply one.txt (new): +1 -0?' || fail 'the first one is not told as a change'
shows '^? create_file two.txt (new) +1 -0 waits' || fail 'the second one is not a line'

# In one go: a lone y that came too early does nothing.
press y Enter
await 'Not sent.  To answer create_file, press y without RET' 'a key with RET is no message'
shows 'queued' && fail 'it was queued'
waiting 3 || fail 'it answered a request'

# Until the first one could be read no key counts, and a key that repeats is none.
press C-c C-a
tries=0
until [ -e "$scratch/project/one.txt" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'no key answered the first request'
  type_text 'yyyyyyyyyy'
  sleep 0.5
done
await 'Too fast: read the request, then press the key again' 'the rest of a series is refused'
waiting 2 || fail 'a key that repeats answered more than one request'
[ ! -e "$scratch/project/two.txt" ] || fail 'a key that repeats ran a second call'
echo 'answers: a key that repeats answers one request'

tries=0
until [ -e "$scratch/project/two.txt" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'y did not answer the second request'
  press y
  sleep 0.5
done
waiting 1 || fail 'y answered the third request, too'
tries=0
until shows 'Reason (optional):'; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'r did not ask for a reason'
  press r
  sleep 0.5
done
type_text 'two are enough'
press Enter
await 'create_file three.txt.*denied: two are enough$' 'the reason of a denial is shown'
# The server answers only a request that carries the reason.
await 'Two files it is\.' 'and told to the model'
[ ! -e "$scratch/project/three.txt" ] || fail 'a call that was denied ran'

press M-'>'
type_text '/eval_form (+ 1 2)'
press Enter
await 'eval_form (+ 1 2) ✗ No Lisp image is connected .* ms \[Connect\]$' 'a call that failed says why on its line'
press BTab
press Tab
await '^ *error:$' 'unfolded, the error stands before the arguments'
screen | grep -A3 '^ *error:$' | grep -q 'form: (+ 1 2)' || fail 'the arguments do not follow the error'

press C-x C-c
