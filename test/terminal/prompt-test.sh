#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Answers requests by keys at the empty prompt, and types messages that begin with such keys: before the
# request comes, as it comes, and when it has long been there.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=prompt
. test/terminal/support.sh

# Types TEXT as people do, key by key; the last one is not waited for.
by_hand() { # TEXT
  text=$1
  while [ -n "$text" ]; do
    rest=${text#?}
    type_text "${text%"$rest"}"
    text=$rest
    sleep 0.15
  done
}

nothing_ran() { # WHAT
  for file in one two three four; do
    [ ! -e "$scratch/project/$file.txt" ] || fail "$1 ran a call"
  done
}

# Presses KEY at the prompt until COMMAND succeeds. Until the request was read no key counts.
until_it_counts() { # KEY PROBLEM COMMAND...
  key=$1 what=$2
  shift 2
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt 30 ] || fail "$what"
    press "$key"
    sleep 1.2
  done
}

open_chat test/terminal/prompt-script.json 80 24
press C-x 1
type_text 'Make three files.'
press Enter
await '^? Apply one.txt' 'the first request comes'
# Just now: the keys come before anybody could read it.
by_hand 'yes, do that'
await '^> yes, do that' 'what is typed as a request comes is text'
nothing_ran 'a message'
press Enter
await '1 queued' 'it is a message'
# The request has been there for a while, and could be answered.
sleep 2
by_hand 'no? why'
await '^> no? why' 'what is typed later is text'
nothing_ran 'a message'
press Enter
await '2 queued' 'and a message'
shows '3 wait' || fail 'a message answered a request'

sleep 2
type_text 'yyyyyyyyyyyyyyyyyyyy'
sleep 1
nothing_ran 'a key that repeats'
shows '^> *$' || fail 'a key that repeats is text'

until_it_counts y 'y at the prompt did not answer' test -e "$scratch/project/one.txt"
echo 'prompt: y at the empty prompt runs the next call'
[ ! -e "$scratch/project/two.txt" ] || fail 'it answered two requests'
shows '^> *$' || fail 'the key is at the prompt, too'
await '^? Apply two.txt' 'the next one is shown in full'
until_it_counts n 'n at the prompt did not answer' shows 'two.txt.*denied'
until_it_counts n 'n at the prompt did not answer' shows 'three.txt.*denied'
await 'As you say' 'the message that waited is sent'

# A request that comes while somebody thinks, and types then, is not answered either.
await '^? Apply four.txt' 'another request comes'
by_hand 'yes please'
await '^> yes please' 'what is typed is text'
sleep 1
[ ! -e "$scratch/project/four.txt" ] || fail 'a message ran a call'
press C-a C-k
sleep 1
until_it_counts y 'y at the prompt did not answer' test -e "$scratch/project/four.txt"
await 'All right' 'the turn ends'

press C-x C-c
