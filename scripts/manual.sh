#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds the manual into the folder given, by default target/manual: Info (agent-q.info, dir), HTML (agent-q.html,
# keys.html) and one Org file (agent-q.org). Without texinfo the Info manual is left out, which is said in a line.
# Names what it made, unless QUIET=1.

set -eu
cd "$(dirname "$0")/.."
: "${EMACS:=emacs}"
folder=${1:-${CARGO_TARGET_DIR:-target}/manual}

mkdir -p "$folder"
rm -f "$folder/agent-q.info" "$folder/dir"
"$EMACS" -Q --batch -l scripts/manual.el "$folder"
if ! command -v makeinfo >/dev/null 2>&1 || ! command -v install-info >/dev/null 2>&1; then
  echo "manual: texinfo is not installed, so there is no Info manual; M-x agent-q-manual shows it as Org." >&2
elif makeinfo --no-split -o "$folder/agent-q.info" "$folder/agent-q.texi"; then
  install-info "$folder/agent-q.info" "$folder/dir"
else
  rm -f "$folder/agent-q.info"
  echo "manual: makeinfo failed, so there is no Info manual." >&2
  exit 1
fi
[ "${QUIET:-}" = 1 ] || (cd "$folder" && ls "$PWD"/agent-q.info "$PWD"/agent-q.html "$PWD"/keys.html 2>/dev/null) || true
