#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Another agent calls a tool through the bridge: its request is announced in the mode line, answered on the
# screen by the keys of a chat, and refused while the agent is paused. No window is taken.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=mcp
. test/terminal/support.sh

mkdir -p "$scratch/home" "$scratch/project"
mkdir -m 700 "$scratch/run"
export AGENT_Q_MCP_DIRECTORY="$scratch/run"
cat > "$scratch/settings.el" <<LISP
(push "$PWD/lisp" load-path)
(require 'agent-q-module)
(setq agent-q-log-file "$scratch/core.log"
      inhibit-startup-screen t)
LISP
terminal new-session -d -x 90 -y 44 \
  "env HOME='$scratch/home' LC_ALL=C.UTF-8 TERM=screen-256color AGENT_Q_MCP_DIRECTORY='$scratch/run' \
    $terminal_emacs -l '$scratch/settings.el' -l agent-q --eval '(agent-q-mcp-mode 1)' \
    2> '$scratch/emacs.log'" || fail 'tmux did not start'
patiently 'the socket did not come' sh -c "ls '$scratch'/run/*.json >/dev/null 2>&1"

bridge=$PWD/lisp/agent-q-mcp
mkfifo "$scratch/host"
(cd "$scratch/project" && exec "$bridge" < "$scratch/host" > "$scratch/answers" 2> "$scratch/errors") &
exec 8> "$scratch/host"
say() { printf '%s\n' "$1" >&8; }
answered() { grep -q "\"id\":$1[,}]" "$scratch/answers"; }
call() { # ID FILE
  say '{"jsonrpc":"2.0","id":'"$1"',"method":"tools/call","params":{"name":"call_tool","arguments":{"name":"write_file","arguments":{"path":"'"$2"'","content":"made by another agent\n"}}}}'
}

say '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"claude-code","version":"1"}}}'
patiently 'initialize was not answered' answered 1
call 2 hello.txt
await '\[agent-q asks\]' 'the mode line says that something is asked'
shows 'made by another agent' && fail 'a window was taken'
press M-x
type_text 'agent-q-goto-approval'
press Enter
await '\*agent-q: claude-code 1\*' 'the request is in the buffer of the client'
await '? .*hello.txt' 'the request is shown'
tries=0
until [ -e "$scratch/project/hello.txt" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'y did not answer'
  press y
  sleep 0.5
done
patiently 'the client got no result' answered 2
echo 'mcp: y ran it, and the client has the result'

call 3 other.txt
await 'file: .*other.txt' 'a second request comes'
sleep 1
press 'M->'
tries=0
until answered 3; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || fail 'n did not answer'
  press n
  sleep 0.5
done
grep '"id":3' "$scratch/answers" | grep -q 'User denied' || fail 'the client does not know that it was denied'
[ ! -e "$scratch/project/other.txt" ] || fail 'what was denied ran'
echo 'mcp: n at the end of the buffer denied it'

press C-c C-t
await 'Paused' 'the client is paused'
call 4 third.txt
patiently 'the paused client got no answer' answered 4
grep '"id":4' "$scratch/answers" | grep -q 'paused this client' || fail 'the paused client was not refused'

exec 8>&-
await 'The client disconnected' 'its end is shown'
press C-x C-c
echo 'mcp: passed'
