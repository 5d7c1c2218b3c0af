#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Opens Emacs with a Lisp image and a chat. First, where no model is found, offers the demo model.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}"

if ! sh scripts/demo-model.sh status &&
  ! "$EMACS" -Q --batch -l scripts/chat.el -f agent-q-try-model-p 2>/dev/null; then
  echo "No key and no model server were found on this machine."
  sh scripts/demo-model.sh offer || echo "The chat opens without a model: a console for the tools."
fi

if [ ! -t 0 ] || [ ! -t 1 ]; then
  if [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    echo "make chat opens Emacs here; run it in a terminal." >&2
    exit 1
  fi
fi
# Without a display, Emacs opens in the terminal by itself.
exec "$EMACS" -Q -l scripts/chat.el -f agent-q-try
