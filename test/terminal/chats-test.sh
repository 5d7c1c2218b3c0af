#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A chat changes a file and a function, goes back and forth, is asked with three mentions, loses its Emacs in
# mid-turn, and goes on in another: taken back by two turns and forth, forked, found by a word, exported.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=chats
. test/terminal/support.sh

holds() { # WHAT TEXT
  printf '%s\n' "$2" > "$scratch/expected"
  patiently "$1: the file has other bytes" cmp -s "$scratch/expected" "$scratch/project/notes.txt"
  echo "chats: $1"
}

function_says() { # WHAT VALUE
  type_text '/eval_form (list (aq-chat) 1)'
  press Enter
  await "($2 1)" "$1"
}

command() { # NAME
  press M-x
  type_text "$1"
  press Enter
}

settings="agent-q-chat-history-directory \"$scratch/chats/\"
      agent-q-offered-tools 'all
      agent-q-tool-levels '((\"create_file\" . :safe) (\"edit_file\" . :safe))
      agent-q-project-root \"$scratch/project/\""
mkdir -p "$scratch/project"
open_chat_with_lisp test/terminal/chats-script.json 110 50 "$settings"
type_text 'Do the first.'
press Enter
await 'The first is done' 'the first turn is over'
holds 'the file was made' one
type_text 'Do the second.'
press Enter
await 'The quince is done' 'the second turn is over'
holds 'the file was changed' two
function_says 'the function is the second' :SECOND

# Both turns, from the first message.
press C-c C-p
press C-c C-p
press C-c C-p
press C-c C-r
await 'Go back to before: Do the first' 'what it would do is shown'
await 'Files: 1 file' 'with the file'
await 'AQ-CHAT (function)' 'and the function'
press C-c C-c
await 'Went back: 1 file, 1 definition' 'it went back'
await 'AQ-CHAT: removed the new function' 'in the image, too'
patiently 'the file is still there' test ! -e "$scratch/project/notes.txt"
shows 'The quince is done' && fail 'what was taken back is still shown'
press C-a C-k
command agent-q-undo-rewind
await 'The rewind was undone' 'the rewind was undone'
await 'brought back the function' 'the function as well'
holds 'the file is back' two
await 'The quince is done' 'so is the conversation'
function_says 'the function is the second again' :SECOND

type_text 'Do the third by @file:notes.txt and @symbol:aq-chat and @repl, please.'
press Enter
await 'Half an answ' 'a turn is running'
shows '^  ▸ @file:notes.txt  ' || fail 'the file is not shown under the message'
shows '^  ▸ @symbol:aq-chat  ' || fail 'the symbol is not'
shows '^  ▸ @repl  ' || fail 'the evaluations are not'
grep -q 'from=\\"the image on the symbol aq-chat\\"' "$scratch/requests" || fail 'the symbol was not sent'
echo 'chats: three mentions are attached'
sleep 2 # what is written once a second is in the file then
kill -9 "$(terminal display-message -p -t 0 '#{pane_pid}')"
end_terminal

# Another Emacs.
cat > "$scratch/again.el" <<LISP
(push "$PWD/lisp" load-path)
(require 'agent-q-module)
(setq agent-q-provider '(:name "scripted" :base-url "http://$address/v1" :model "scripted")
      agent-q-log-file "$scratch/core.log"
      inhibit-startup-screen t
      default-directory "$scratch/project/"
      $settings)
LISP
terminal new-session -d -x 110 -y 50 \
  "env HOME='$scratch/home' LC_ALL=C.UTF-8 TERM=screen-256color \
    $terminal_emacs -l '$scratch/again.el' 2>> '$scratch/emacs.log'" || fail 'tmux did not start'
await 'scratch' 'another Emacs is there'
# Keys that come before the choice are for it.
command agent-q-resume
press Enter
await 'Resumed: ' 'the chat was resumed'
await 'Interrupted: Emacs exited during this turn' 'the last turn is shown as cut off'
await 'Its image' 'it says that its image is gone'
press C-x 1
await 'The quince is done' 'what was said is shown'
press C-c C-p
press C-c C-p
press C-c C-p
press C-c C-p
press C-c C-r
await 'Go back to before: Do the second' 'going back by two turns is offered'
press C-c C-c
await 'Went back: 1 file' 'it went back'
holds 'the file is as the first turn left it' one
shows 'Half an answ' && fail 'what was taken back is still shown'
command agent-q-undo-rewind
await 'The rewind was undone' 'and forth'
holds 'the file is as the second turn left it' two
press C-a C-k
command agent-q-fork-chat
await 'agent-q: project: Do the first\*<2>' 'the fork is a chat of its own'
await 'Resumed: ' 'with what came before'
type_text 'And now?'
press Enter
await 'Here we are again' 'it goes on'

command agent-q-chats
await 'State.*When' 'the chats are listed'
press s
await 'with the words' 'words are asked for'
type_text 'quince'
press Enter
await 'with "quince"' 'the list is of those with the word'
await 'Do the first' 'the chat is found'
press "M-<"
press e
await 'Write this chat to' 'it can be exported'
press C-a C-k
type_text "$scratch/chat.md"
press Enter
patiently 'nothing was exported' grep -qs 'The quince is done' "$scratch/chat.md"
grep -q '> Do the second\.' "$scratch/chat.md" || fail 'the message is not in the file'
echo 'chats: it was exported'
[ "$(stat -c %a "$scratch/chats")" = 700 ] || fail 'others can look into the folder'
echo 'chats: ok'
