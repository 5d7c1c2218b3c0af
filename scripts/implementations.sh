#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Tries every tool of the image on SBCL, ECL, ABCL and CLISP, as far as they are installed, through
# SLIME and SLY, and writes what comes of it into the table of IMPLEMENTATIONS.md.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}"

for ide in sly slime; do
  directory=$("$EMACS" -Q --batch -l scripts/lisp-ide.el \
    --eval "(princ (or (agent-q-ide-find '$ide) \"\"))" 2>/dev/null)
  variable=$(printf '%s_DIR' "$ide" | tr '[:lower:]' '[:upper:]')
  [ -z "$directory" ] || export "$variable=$directory"
done
AGENT_Q_WRITE_TABLE=1 AGENT_Q_TEST_SELECTOR='agent-q-implementations-.*/' \
  exec "$EMACS" -Q --batch -l test/support/run-ert.el test/agent-q-implementations-test.el </dev/null
