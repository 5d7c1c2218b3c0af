#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Read by scripts/trial.sh and the test of the trial's tasks: checks a project in a Lisp of its own.

check() { # PROJECT TASK -> "HELD of CHECKS", nothing where the project doesn't load
  # A cache of its own: what was compiled of the project meanwhile doesn't count.
  tasks=$(pwd)/test/trial
  (cd "$1" && ASDF_OUTPUT_TRANSLATIONS="/:$1.cache" timeout 120 sbcl --dynamic-space-size 512 --disable-ldb \
    --lose-on-corruption --noinform --no-userinit --no-sysinit --non-interactive --load "$tasks/trial.lisp" \
    --load "$tasks/$2/check.lisp" --eval '(trial:report)' 2>&1) > "$1.check"
  sed -n 's/^\([0-9]* of [0-9]*\) checks hold$/\1/p' "$1.check"
}
