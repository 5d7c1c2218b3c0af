#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Has the agent call a function of the program that deletes files, in a real image: it waits there, is
# denied, allowed, and allowed by a rule, each by keys.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=effect
. test/terminal/support.sh

# What a request to delete the file NAME.txt looks like; its path may be too long for the line.
deletes() { printf 'The running code wants to delete .*%s.txt\\|^[^a-z(]*/[^ ]*%s.txt$' "$1" "$1"; } # NAME

mkdir "$scratch/shop"
for file in one two three; do echo x > "$scratch/shop/$file.txt"; done
sed "s|FOLDER|$scratch/shop|" test/terminal/effect-script.json > "$scratch/script.json"
open_chat_with_lisp "$scratch/script.json" 100 40 ''

# Presses KEY on the request until what it shows has gone, as no key counts before that could be read.
answer() { # KEY PATTERN
  tries=0
  while shows "$2"; do
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || fail "$1 did not answer"
    press C-c C-a
    sleep 0.6
    type_text "$1"
    sleep 0.4
  done
}

type_text 'Clean up.'
press Enter
await 'The running code wants to make a definition that deletes' 'the definition asks'
answer y 'wants to make a definition that deletes'

await "$(deletes one)" 'the function waits where it deletes'
[ -e "$scratch/shop/one.txt" ] || fail 'it was deleted already'
shows 'by SHOP-CLEANUP' || fail 'the function is not named'
answer n "$(deletes one)"
await 'delete .*one.txt  denied' 'it is denied'

await "$(deletes two)" 'the next one waits'
[ -e "$scratch/shop/one.txt" ] || fail 'what was denied was done'
press C-c C-a
patiently 'the rule is not shown' sh -c "tmux -u -S '$socket' send-keys -t 0 C-c C-a; sleep 0.6; \
  tmux -u -S '$socket' send-keys -t 0 -l '!'; sleep 0.4; \
  tmux -u -S '$socket' capture-pane -p -t 0 | grep -q 'SHOP-CLEANUP may delete files under'"
answer '!' "$(deletes two)"

# The rule answers the third.
await 'All done' 'the turn ends'
[ ! -e "$scratch/shop/two.txt" ] || fail 'what was allowed was not done'
[ ! -e "$scratch/shop/three.txt" ] || fail 'the rule did not answer'
grep -q 'The user denied it' "$scratch/requests" || fail 'the model was not told of the denial'
echo 'effect: a function that deletes waits for the user, and for a rule'
