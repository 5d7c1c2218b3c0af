#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Opens Emacs with a Lisp image and a chat, or where no model is found, with the tour.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}"

if [ ! -t 0 ] || [ ! -t 1 ]; then
  if [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    echo "make chat opens Emacs here; run it in a terminal." >&2
    exit 1
  fi
fi
# Without a display, Emacs opens in the terminal by itself.
exec "$EMACS" -Q -l scripts/chat.el -f agent-q-try
