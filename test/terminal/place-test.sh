#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Has a definition rewritten at point in a terminal: no chat opens, the edit is shown in its place, and a
# key takes it.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=place
. test/terminal/support.sh

mkdir "$scratch/project"
cat > "$scratch/project/bank.lisp" <<'LISP'
(in-package :bank)

(defun transfer (from to amount)
  "Move AMOUNT."
  (decf (balance from) amount)
  (incf (balance to) amount))
LISP
: > "$scratch/project/bank.asd"
open_chat test/terminal/place-script.json 110 30
press C-x C-f
await 'Find file:' 'a file is asked for'
type_text 'bank.lisp'
press Enter
await '(in-package :bank)' 'the file is shown'
press C-s
type_text 'decf'
press Enter C-x 1 M-x
type_text 'agent-q-rewrite'
press Enter
await 'Rewrite .*transfer.* how?' 'a wish is asked for'
type_text 'refuse negative amounts'
press Enter
await '1/1 y accept, k reject' 'the edit is shown'
await '(check-type amount (real 0))' 'its new lines are there'
await 'y or k on it' 'its keys are told'
await 'C-c C-c apply the rest' 'the keys count'
! shows 'agent-q: project.*ElDoc' || fail 'a chat was opened'
! grep -q check-type "$scratch/project/bank.lisp" || fail 'the file was changed before the answer'
press y
patiently 'the edit was not applied' grep -q check-type "$scratch/project/bank.lisp"
await 'The turn is over' 'the turn is over'
! shows 'y accept' || fail 'the edit is still shown'

# Without colours, signs tell old lines from new ones; and all of them are shown before a key counts.
end_terminal
kill "$server"
rm -f "$scratch/input" "$scratch/address"
{
  seq 1 12 | sed 's/^/; line /'
  printf '(defun transfer (from to amount)\n  (incf (balance to) amount))\n'
} > "$scratch/project/bank.lisp"
terminal_type=vt100
open_chat test/terminal/place-script.json 80 28
press C-x C-f
await 'Find file:' 'a file is asked for without colours'
type_text 'bank.lisp'
press Enter
await '; line 1$' 'the file is shown without colours'
press C-x 1 C-x 2 C-s
type_text 'defun'
press Enter M-x
type_text 'agent-q-rewrite'
press Enter
await 'Rewrite .*transfer.* how?' 'a wish is asked for without colours'
type_text 'refuse negative amounts'
press Enter
await '^-   (incf' 'old lines have a sign'
await 'C-c C-c apply the rest' 'the keys count without colours'
shows '^+   amount)' || fail 'new lines are out of sight'
press y
patiently 'the edit was not applied without colours' grep -q check-type "$scratch/project/bank.lisp"
