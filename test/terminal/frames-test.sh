#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Has an Emacs with two frames, each on a terminal of its own, show reviews: they never use a window
# of the other frame, nor make a frame.

set -u
cd "$(dirname "$0")/../.." || exit 1
name=frames
. test/terminal/support.sh

# The second terminal belongs to nobody until Emacs opens it.
terminal new-session -d -s other -x 80 -y 24 "tty > '$scratch/tty'; exec sleep 120"
patiently 'no second terminal' test -s "$scratch/tty"

AGENT_Q_TTY=$(cat "$scratch/tty") AGENT_Q_OUTCOME=$scratch/outcome
export AGENT_Q_TTY AGENT_Q_OUTCOME
terminal new-session -d -s first -x 80 -y 24 \
  "AGENT_Q_TTY='$AGENT_Q_TTY' AGENT_Q_OUTCOME='$AGENT_Q_OUTCOME' $terminal_emacs -L lisp \
    -l test/terminal/frames.el -f agent-q-frames-test; tmux -S '$socket' wait-for -S ended"
timeout 60 tmux -S "$socket" wait-for ended || echo 'it hung' >> "$scratch/outcome"
if [ "$(cat "$scratch/outcome" 2>/dev/null)" = ok ]; then
  echo 'frames: a review stays in the frame that is selected'
else
  echo "frames: FAILED: $(cat "$scratch/outcome" 2>/dev/null || echo 'Emacs said nothing')"
  exit 1
fi
