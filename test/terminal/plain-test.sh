#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A terminal without colours in the locale C: an answer, a request and a call are told apart by their
# signs, all of which are ASCII.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=plain
terminal_type=vt100
locale=C
. test/terminal/support.sh

open_chat test/terminal/markdown-script.json 80 45
press C-x 1
type_text 'What is it?'
press Enter
await 'That is all' 'the answer is there'
shows '^What \*print-base\* is$' || fail 'the heading has its sign'
shows '^| \*print-base\* |      10 |$' || fail 'the table is not aligned'
shows '^| quoted' || fail 'the quote has no bar'
shows '^| ? eval_form waits' || fail 'what imitates a request is not marked'

type_text '/get_project_root'
press Enter
await '^+ get_project_root.*ok' 'a folded call has a sign that is not that of the prompt'
await '^> $\|^>$' 'the prompt is there'
type_text '/create_file path=new.txt content=x'
press Enter
await '^? Apply new.txt (new)' 'a request is told apart'
await '\[y\] apply  \[n\] deny' 'its buttons are whole'
sleep 1
press n
await 'create_file.*denied' 'and a key answers it'
[ ! -e "$scratch/project/new.txt" ] || fail 'the file was made'

if screen | LC_ALL=C grep -v 'mode\|UUU\|--' | LC_ALL=C grep -q '[^ -~	]'; then
  fail 'something is not ASCII'
fi
if terminal capture-pane -e -p -t 0 | grep -q "$(printf '\033')\[[0-9;]*3[0-7]m"; then
  fail 'there are colours'
fi
echo 'plain: no colours, and nothing that is not ASCII'
press C-x C-c
