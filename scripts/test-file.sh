#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs one file of tests for scripts/test.sh: FOLDER LABEL FILE. What it says goes to
# FOLDER/NAME.log and "PASSED FAILED SKIPPED" to FOLDER/NAME.sum; NAME is LABEL and FILE with dashes.

set -u
folder=$1
label=$2
file=$3
: "${EMACS:=emacs}"
name=$(printf '%s %s' "$label" "$file" | tr ' /' '--')
counts=$folder/$name.counts
# Of its own, as many run side by side; short, as it is a part of the names of sockets.
TMPDIR=$(mktemp -d "$TMPDIR/XXXX") || exit 1
export TMPDIR

# A stuck test must end one day; the limit is far above what any file needs.
within() {
  if command -v timeout >/dev/null 2>&1; then timeout -k 10 600 "$@"; else "$@"; fi
}

ert() { # EMACS-OPTION...
  AGENT_Q_COUNTS=$counts within "$EMACS" -Q --batch "$@" -l test/support/run-ert.el "$file"
  status=$?
  # shellcheck disable=SC2046
  set -- $(cat "$counts" 2>/dev/null || echo 0 1 0)
  if [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; then
    set -- "$1" 1 "$3" # it died after the tests
  fi
  sum="$1 $2 $3"
}

# Native code is compiled, and Lisp images are saved, while the first files run with neither.
with_images() {
  until [ -e "$folder/cores.sum" ]; do sleep 1; done
  AGENT_Q_TEST_CORES=$folder/cores
  export AGENT_Q_TEST_CORES
}

with_native_code() {
  until [ -e "$folder/native.sum" ]; do sleep 1; done
  if [ -e "$folder/native/done" ]; then
    AGENT_Q_TEST_NATIVE=$folder/native
    export AGENT_Q_TEST_NATIVE
  fi
}

began=$(date +%s)
{
  case "$label" in
    terminal) if within sh "$file"; then sum='1 0 0'; else sum='0 1 0'; fi ;;
    'module assertions') with_images && with_native_code && ert --module-assertions ;;
    'saved image') with_images && ert ;;
    *) ert ;;
  esac
} > "$folder/$name.log" 2>&1 < /dev/null
echo "$(($(date +%s) - began)) $file" > "$folder/$name.seconds"
echo "$sum" > "$folder/$name.sum.new"
mv "$folder/$name.sum.new" "$folder/$name.sum"
rm -rf "$TMPDIR"
