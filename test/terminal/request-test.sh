#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A request that is longer than its window can't be answered by y before its end was on the screen; that
# more is below is said under its head.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=request
. test/terminal/support.sh

open_chat test/terminal/request-script.json 80 24
press C-x 1
type_text 'Make a long file.'
press Enter
await '\[y\] apply' 'the chat follows, so that the end of the request is shown'
sleep 1
press y
await '? Apply long.txt (new)' 'y goes to its head'
await '^▌ *[0-9][0-9] more lines below: SPC shows more; y works once the end was shown' 'more is said to be below'
await 'first line' 'the head is shown'

# However often and however late, y does nothing without the end.
for _ in 1 2 3 4; do
  press y
  sleep 0.6
done
await 'Read to the end of the request first; SPC shows more' 'y is refused'
type_text 'yyyyyyyyyyyyyyyyyyyy'
sleep 1
[ ! -e "$scratch/project/long.txt" ] || fail 'y ran a call whose end was not shown'
# A rule is shown, but not taken.
press !
await 'Press ! again to add this rule' 'the rule stands in sight'
sleep 1
press !
await 'Read to the end of the request first' 'no rule is taken, either'
[ ! -e "$scratch/project/long.txt" ] || fail '! ran a call whose end was not shown'

tries=0
until shows '\[y\] apply'; do
  tries=$((tries + 1))
  [ "$tries" -lt 20 ] || fail 'SPC does not get to the end'
  press Space
  sleep 0.3
done
[ "$tries" -gt 1 ] || fail 'the end was in sight before'
echo 'request: SPC shows the end'
shows 'last line' || fail 'the end of the text is not beside the keys'
tries=0
until [ -e "$scratch/project/long.txt" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'y did not answer once the end was shown'
  press y
  sleep 0.5
done
await 'It is there\.' 'the call ran once its end was shown'

# Where no line is left out between the end, which the chat shows, and what y shows, a second y answers.
press M-\>
type_text 'Make a high file.'
press Enter
await '\[y\] apply' 'the chat follows to the end of a request that is a little too high'
sleep 1.5
press y
await '? Apply high.txt (new)' 'y goes to its head'
shows 'last line' && fail 'it was not too high'
sleep 1
[ ! -e "$scratch/project/high.txt" ] || fail 'the first y ran the call'
press y
await 'That is there, too\.' 'the second y runs it'

# A rule takes lines, and the request above it was read before it came. In a long temporary folder the
# file's name takes a line more, which fits as well.
press M-\>
type_text 'Make a fitting file.'
press Enter
await '^▌ *\[y\] apply' 'a request comes that just fits'
sleep 1.5
shows '? Apply fits.txt (new)' || fail 'it does not fit'
press !
await 'Press ! again to add this rule' 'the rule stands by the keys'
shows '? Apply fits.txt (new)' && fail 'the rule leaves room'
sleep 1.5
[ ! -e "$scratch/project/fits.txt" ] || fail 'the first ! ran the call'
press !
await 'All are there\.' 'the second ! takes it'

press C-x C-c
