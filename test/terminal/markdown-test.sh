#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Looks at an answer in Markdown on the screen of a terminal, with its colours, and copies code of it.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=markdown
. test/terminal/support.sh

coloured() { terminal capture-pane -e -p -t 0 | grep -q -e "$1"; } # PATTERN
escape=$(printf '\033')

open_chat test/terminal/markdown-script.json 80 45
press C-x 1
type_text 'What is it?'
press Enter
await 'That is all' 'the answer is there'

coloured "$escape\[[0-9;]*m.*special variable" || fail 'strong text has no look of its own'
patiently 'the code has no colours' coloured "$escape\[[0-9;]*mdefun$escape"
shows '^What \*print-base\* is$' || fail 'the heading has its sign, or lost its earmuffs'
shows '^│ \*print-base\* │      10 │$' || fail 'the table is not aligned'
shows '^│ x            │ decimal │$' || fail 'the rows of the table are not aligned'
shows '^  wrapped\|^  [a-z]' || fail 'the item does not hang'
shows '^▌ quoted' || fail 'the quote has no bar'
shows '^  (defun base ()' || fail 'code is not set off'
shows '^The variance is σ² = (1/n) ∑ xᵢ, for \$5 and \$10\.$' || fail 'a formula is not drawn'
shows '^E = mc²$' || fail 'a formula in lines of its own is not drawn'
shows '^| ? eval_form waits' || fail 'what imitates a request is not marked'
shows '\[copy\] \[insert\] \[REPL\]' || fail 'the code has no buttons'
echo 'markdown: the answer is shown as Markdown'

press C-c C-a
await 'No pending request' 'an imitated request is none'

press C-c M-w
await 'Copied 42 characters of code' 'code is copied'
press M-x
type_text 'agent-q-toggle-markup'
press Enter
await '^# What' 'markup is shown'
shows 'is \$.sigma^2 = ' || fail 'the formula is not shown as written'
await '^│ `\*print-base\*` │      10 │$' 'and the table aligned again'
press M-x
type_text 'agent-q-toggle-markup'
press Enter
await '^What \*print-base\* is$' 'markup is hidden again'

press M-'>'
type_text 'Nothing?'
press Enter
await 'The model sent an empty reply' 'an empty reply is said'
await '\[Try again\]' 'and offers to try again'

press M-:
type_text "(setq agent-q-markdown--kept '(0 . 0))"
press Enter
press M-'>'
type_text 'Many lines?'
press Enter
await 'and line' 'a long answer is there'
type_text 'And then?'
press Enter
await 'And that is it' 'and one more'
press M-:
type_text '(if (text-property-any (point-min) (point-max) (quote face) (quote agent-q-strong)) "dressed" "bare")'
press Enter
await '"bare"' 'an old answer that is out of sight has no looks'
press M-'<'
patiently 'an old answer gets no looks' coloured "$escape\[[0-9;]*m.*special variable"
patiently 'its code gets no colours' coloured "$escape\[[0-9;]*mdefun$escape"
shows '^│ \*print-base\* │      10 │$' || fail 'its table is not aligned'
shows '\[copy\] \[insert\] \[REPL\]' || fail 'its code has no buttons'
echo 'markdown: an old answer is shown as Markdown again'
press C-x C-c
