#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs everything: lint (unless LINTED=1), then side by side cargo's tests, the ERT files and the terminal
# tests. With ALL=1 each ERT file runs twice, the second time under --module-assertions, as native code
# where Emacs can, in Lisp images that were saved, and each test through SLY and SLIME; otherwise once, and
# through one of them what isn't about them. With T, an extended regexp, only the tests whose names match,
# with QUICK=1 only what needs neither an image nor a terminal. Names what took long, and ends with one
# line that sums the run.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}" "${T:=}" "${QUICK:=}" "${ALL:=}"

passed=0
failed=0
skipped=0
failures=''
scratch=$(mktemp -d "${TMPDIR:-/tmp}/agent-q-test.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
# What the tests of each file say and count.
files=$scratch/files
mkdir "$files" "$files/native" "$files/cores" || exit 1
# What Emacs and the images leave behind goes with it.
TMPDIR=$scratch/t # short, as it is a part of the names of sockets
export TMPDIR
mkdir "$TMPDIR" || exit 1

count() { # PASSED FAILED SKIPPED WHAT
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
  [ "$2" -eq 0 ] || failures="$failures
  $4: $2"
}

lint() {
  if LINT_RUST=optional sh scripts/lint.sh; then count 1 0 0 lint; else count 0 1 0 lint; fi
}

# Sums cargo's own summaries; a listed test file that ran nothing is a failure, unless T chose.
cargo_summary() { # LOG -> "PASSED FAILED SKIPPED"
  awk -v chosen="$T" '
    /^ *Running / { target = $0; sub(/^ *Running (unittests )?/, "", target); sub(/ .*/, "", target) }
    /^ *Doc-tests / { target = "" }
    /^running 0 tests/ && chosen == "" && target ~ /^test\// { print target ": no test ran" > "/dev/stderr"; failed++ }
    /^test result: / {
      for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") passed += $i
        if ($(i + 1) == "failed;") failed += $i
        if ($(i + 1) == "ignored;") ignored += $i
      }
    }
    END { print passed + 0, failed + 0, ignored + 0 }' "$1"
}

cargo_tests() { # CARGO-TEST-ARGUMENT...
  log=$scratch/cargo.log
  # The exit status passes the pipe in a file.
  # The examples are the benchmarks and the scripted server, which stands ready.
  {
    cargo test --quiet --lib --tests --no-run && cargo test --lib --tests --no-fail-fast "$@" 2>&1
    echo $? > "$scratch/status"
  } | tee "$log"
  # shellcheck disable=SC2046
  set -- $(cargo_summary "$log")
  if [ "$(cat "$scratch/status")" -ne 0 ] && [ "$2" -eq 0 ]; then
    set -- "$1" 1 "$3" # it did not compile, or a test binary died
  fi
  count "$1" "$2" "$3" 'cargo test'
}

ert_files() {
  find test -name '*-test.el' -not -path 'test/support/*' | sort
}

# The tests of the image layer run through each of SLY and SLIME that is there.
find_clients() {
  for ide in sly slime; do
    directory=$("$EMACS" -Q --batch -l scripts/lisp-ide.el \
      --eval "(princ (or (agent-q-ide-find '$ide) \"\"))" 2>/dev/null)
    variable=$(printf '%s_DIR' "$ide" | tr '[:lower:]' '[:upper:]')
    if [ -n "$directory" ]; then
      export "$variable=$directory"
    else
      echo "$ide was not found: the tests through it are skipped ($variable=... names a checkout)."
    fi
  done
}

# Others look for the file, so it appears with its text.
sum_of() { # NAME "PASSED FAILED SKIPPED"
  echo "$2" > "$files/$1.sum.new"
  mv "$files/$1.sum.new" "$files/$1.sum"
}

# The second run of the ERT files is one of native code, where this Emacs compiles to it.
native_code() {
  "$EMACS" -Q --batch -l scripts/compile-alone.el -f agent-q-alone-native "$files/native" < /dev/null
  case $? in
    0) sum='1 0 0' && : > "$files/native/done" ;;
    2) sum='0 0 1' && echo 'This Emacs does not compile to native code: it is tested as byte code alone.' ;;
    *) sum='0 1 0' ;;
  esac
  sum_of native "$sum"
}

# The second run starts Lisp images that were saved with our half in them; the first sends it to new ones.
saved_images() {
  if "$EMACS" -Q --batch --eval '(setq load-prefer-newer t)' -L lisp -L test/support \
    -l agent-q-test-image --eval "(agent-q-test-image-save-each \"$files/cores/\")" < /dev/null
  then sum='1 0 0'; else sum='0 1 0'; fi
  sum_of cores "$sum"
}

jobs_of() { # LABEL FILE... -> a line for each, for xargs
  label=$1
  shift
  for file in "$@"; do printf '"%s" "%s"\n' "$label" "$file"; done
}

# A test of an image waits most of its time, for the Lisp, for Emacs, for a key; so one file more runs
# than there are processors. Each is shown when it and those before it are done; until then its number
# stands there.
run_files() { # those in $files/jobs
  xargs -n 2 -P "$(($(sh scripts/jobs.sh) + 1))" sh scripts/test-file.sh "$files" < "$files/jobs" &
  pool=$!
  sed 's/" "/ /; s/"//g' "$files/jobs" > "$files/names"
  all=$(wc -l < "$files/names")
  number=0
  while read -r what; do
    number=$((number + 1))
    echo "$number of $((all)): $what"
    show_file "$what"
  done < "$files/names"
  wait "$pool"
}

show_file() { # WHAT: its label and its file
  stem=$files/$(printf '%s' "$1" | tr ' /' '--')
  while [ ! -e "$stem.sum" ] && kill -0 "$pool" 2>/dev/null; do sleep 0.2; done
  cat "$stem.log"
  # shellcheck disable=SC2046
  set -- "$1" $(cat "$stem.sum" 2>/dev/null || echo 0 1 0)
  count "$2" "$3" "$4" "$1"
}

# Whether the tests of FILE call the core themselves, or look at what crosses to it.
about_module() { # FILE
  case "$1" in
    *-garbage-test.el | *-text-test.el | *-torture-test.el) ;;
    *) grep -q -e 'agent-q-core-' -e 'agent-q-module-' "$1" ;;
  esac
}

# Whether FILE starts Lisps in which our half is to be put, or others than those that were saved.
new_images() { # FILE
  case "$1" in
    */agent-q-image-test.el | *-connections-test.el | *-implementations-test.el | *-threadless-test.el) ;;
    *) false ;;
  esac
}

# Each file once: as native code under --module-assertions what is about the module, in saved images
# what is about Lisp. What waits for neither comes first, and what takes long.
each_once() {
  for file in $(ert_files | sort -r); do
    if new_images "$file"; then jobs_of batch "$file"; fi
  done
  jobs_of terminal test/terminal/*-test.sh
  for file in $(ert_files | sort -r); do
    if new_images "$file"; then :
    elif about_module "$file"; then jobs_of 'module assertions' "$file"
    else jobs_of 'saved image' "$file"
    fi
  done
}

# Each file as byte code and in new images, and then as native code, under --module-assertions and in
# images that were saved. From the last name to the first: among the last are those that take long.
each_twice() {
  # shellcheck disable=SC2046
  jobs_of batch $(ert_files | sort -r)
  for file in $(ert_files | sort -r); do
    case "$file" in
      # About Lisps other than SBCL, which the module knows nothing of; some are slow to start.
      *-implementations-test.el | *-threadless-test.el) ;;
      # What they look at happens in other Emacsen, or in none.
      *-install-test.el | *-doctor-test.el | *-setup-test.el) ;;
      # What it tries is the image's half; the module does in it what it does in the others.
      *-generated-test.el) ;;
      *) jobs_of 'module assertions' "$file" ;;
    esac
  done
  # As a user, by keys, in a terminal.
  jobs_of terminal test/terminal/*-test.sh
}

# Names of Rust tests that match T: their functions, wherever they are.
rust_tests() {
  find src test -name '*.rs' -exec awk '
    /#\[(tokio::)?test/ { test = 1 }
    test && match($0, /fn [a-z0-9_]+/) { print substr($0, RSTART + 3, RLENGTH - 3); test = 0 }' {} + |
    grep -E -e "$T" || true
}

matching_tests() {
  names=$(rust_tests)
  # shellcheck disable=SC2086
  if [ -n "$names" ]; then cargo_tests -- $names; fi
  find_clients
  # Emacs writes the operators of extended regexps with a backslash.
  AGENT_Q_TEST_SELECTOR=$(printf '%s' "$T" | sed 's/[|()]/\\&/g')
  export AGENT_Q_TEST_SELECTOR
  # shellcheck disable=SC2046
  matching=$("$EMACS" -Q --batch -l test/support/run-ert.el \
    --matching "$AGENT_Q_TEST_SELECTOR" $(ert_files))
  # shellcheck disable=SC2086
  jobs_of batch $matching > "$files/jobs"
  run_files
  [ $((passed + failed + skipped)) -gt 0 ] || count 0 1 0 "no test has a name that matches $T"
}

# Cargo's tests, once they are compiled, run beside the files, and are shown after them.
all_beside() {
  echo 'Compiling the tests in Rust'
  cargo test --quiet --lib --tests --no-run || true
  (
    passed=0 failed=0 skipped=0 failures=''
    cargo_tests
    echo "$passed $failed $skipped" > "$scratch/cargo.sum"
  ) > "$scratch/cargo.out" 2>&1 &
  cargo=$!
  run_files
  wait "$cargo"
  cat "$scratch/cargo.out"
  # shellcheck disable=SC2046
  count $(cat "$scratch/cargo.sum" 2>/dev/null || echo 0 1 0) 'cargo test'
}

quick_tests() {
  AGENT_Q_TEST_SELECTOR='(not (tag :image))'
  export AGENT_Q_TEST_SELECTOR
  # shellcheck disable=SC2046
  jobs_of batch $(ert_files) > "$files/jobs"
  all_beside
}

everything() {
  [ "${LINTED:-}" = 1 ] || lint
  find_clients
  if [ -n "$ALL" ]; then
    each_twice > "$files/jobs"
  else
    AGENT_Q_TEST_ONCE=1
    export AGENT_Q_TEST_ONCE
    each_once > "$files/jobs"
  fi
  native_code > "$files/native.log" 2>&1 &
  native=$!
  saved_images > "$files/cores.log" 2>&1 &
  cores=$!
  all_beside
  wait "$native" "$cores"
  show_file native
  show_file cores
}

# Names the files that took longest.
slowest() {
  cat "$files"/*.seconds 2>/dev/null | sort -rn | head -5 | {
    line=''
    while read -r seconds file; do line="$line${line:+, }$file $seconds s"; done
    [ -z "$line" ] || echo "Slowest: $line"
  }
}

# What is kept for the next compilation is large, and most people run the tests once.
: "${CARGO_INCREMENTAL:=0}"
export CARGO_INCREMENTAL
echo 'Building the scripted server and the MCP client'
cargo build --quiet --example scripted-server --example mcp-client --example tool-server ||
  count 0 1 0 'building the scripted server and the MCP client'
if [ -n "$T" ]; then
  matching_tests
elif [ -n "$QUICK" ]; then
  quick_tests
else
  everything
fi

slowest
[ -z "$failures" ] || printf 'Failures in:%s\n' "$failures"
closing="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || closing="$closing, $skipped skipped"
echo "$closing"
[ "$failed" -eq 0 ]
