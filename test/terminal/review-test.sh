#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Reviews a diff of three hunks in a terminal: applies two, comments on the third, and undoes the
# turn. The file after each is compared byte for byte.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=review
. test/terminal/support.sh

lines() { # NUMBER... : forty lines, those changed
  number=1
  while [ "$number" -le 40 ]; do
    case " $* " in
      *" $number "*) echo "(new $number)" ;;
      *) echo "(line $number)" ;;
    esac
    number=$((number + 1))
  done
}

holds() { # WHAT LINES...
  what=$1
  shift
  lines "$@" > "$scratch/expected"
  patiently "$what: the file has other bytes" \
    cmp -s "$scratch/expected" "$scratch/project/three.lisp"
  echo "review: $what"
}

mkdir "$scratch/project"
lines > "$scratch/project/three.lisp"
open_chat test/terminal/review-script.json 110 50
type_text 'Change three places.'
press Enter
await '? Apply three.lisp: +3 -3, 3 hunks' 'the edit asks'
await '3/3 hunks, +3 -3' 'its diff is shown'
press C-x o
press n
press n
press Space
await '2/3 hunks, +2 -2' 'the third hunk is left out'
await '\[ \] reject' 'its state is text, too'
press c
await 'Comment for the model' 'a comment is asked for'
type_text 'leave the end alone'
press Enter
await '\[ \] reject: leave the end alone' 'the comment is shown'
holds 'nothing was changed yet'
press C-c C-c
# The server only says this to a request that carries the review.
await 'Two it is then, and the end stays\.' 'the model was told'
await 'propose_file_edit three.lisp +2 -2, 2 of 3 hunks ✓' 'the line says what was done'
holds 'two of three hunks are applied' 2 20
await '▸ Changed three.lisp +2 -2  \[Diff\] \[Undo\]' 'what the turn changed is told under it'
press M-x
type_text 'agent-q-undo-turn'
press Enter
await 'Undo these changes of three.lisp +2 -2?' 'undoing asks'
shows '^-(defun two' || shows '^-' || fail 'what would be undone is not shown'
press y
holds 'the turn is undone'
