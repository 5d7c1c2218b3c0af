#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# All that can be checked without running the program. Goes on after a finding; exits with 1 when
# there was one. LINT_RUST=optional: no finding when rustfmt or clippy are not installed.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}"
findings=0

check() { # NAME COMMAND...
  name=$1
  shift
  if "$@"; then
    echo "lint: $name: ok"
  else
    echo "lint: $name: FAILED"
    findings=$((findings + 1))
  fi
}

with_tool() { # TOOL NAME COMMAND... : like check, where cargo has TOOL
  tool=$1
  shift
  if [ "${LINT_RUST:-needed}" = optional ] && ! cargo "$tool" --version >/dev/null 2>&1; then
    echo "lint: $1: skipped, cargo $tool is not installed"
  else
    check "$@"
  fi
}

sources() { # the files that people wrote; fixtures are data
  find . \( -path ./target -o -path ./.git -o -path ./.cache -o -path ./test/fixtures \) -prune -o \
    -type f \( -name '*.rs' -o -name '*.el' -o -name '*.lisp' -o -name '*.sh' -o -name '*.py' \
    -o -name '*.jinja' -o -name 'Makefile' -o -name 'Cargo.toml' -o -path './.ci/*' \) -print |
    grep -v -e '-autoloads\.el$'
}

licensed() {
  bad=$(sources | while read -r file; do
    head -n 10 "$file" | grep -q 'SPDX-License-Identifier: GPL-3.0-or-later' || echo "$file"
  done)
  [ -z "$bad" ] || { printf 'no SPDX line:\n%s\n' "$bad"; return 1; }
}

short() {
  bad=$(sources | while read -r file; do
    lines=$(($(wc -l < "$file")))
    [ "$lines" -le 1000 ] || echo "$file: $lines lines, at most 1000 are wanted"
  done
  lines=$(($(wc -l < README.md)))
  [ "$lines" -le 150 ] || echo "README.md: $lines lines, at most 150 are wanted; docs/manual.org has room")
  [ -z "$bad" ] || { echo "$bad"; return 1; }
}

# Cargo finds no test by itself here (autotests = false), and the ERT runner takes *-test.el.
listed() {
  bad=$(
    find test -name '*.rs' -not -path 'test/rust/support/*' |
      while read -r file; do
        module=$(basename "$file" .rs)
        grep -q "^path = \"$file\"" Cargo.toml ||
          grep -qs "^mod $module;" "$(dirname "$file")/main.rs" ||
          echo "$file: not in Cargo.toml, and no module of a test that is"
      done
    sed -n 's/^path = "\(test\/.*\)"/\1/p' Cargo.toml |
      while read -r file; do
        [ -f "$file" ] || echo "Cargo.toml: $file is not there"
      done
    find test -name '*.el' -not -name '*-test.el' |
      while read -r file; do
        if grep -q '^(ert-deftest' "$file"; then echo "$file: has tests, so call it *-test.el"; fi
      done
    find test -name '*-test.el' -not -path 'test/support/*' |
      while read -r file; do
        grep -q '^(ert-deftest\|^(agent-q-[a-z-]*-on-each' "$file" || echo "$file: has no test"
      done
  )
  [ -z "$bad" ] || { echo "$bad"; return 1; }
}

# One version, and one set of headers, wherever a package manager looks for them.
versions() {
  version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
  bad=$(
    for file in lisp/agent-q-module.el lisp/agent-q.el agent-q-root.el; do
      grep -q "^;; Version: $version\$" "$file" ||
        echo "$file: its Version is not $version, as Cargo.toml has it"
      for header in Author Package-Requires Keywords; do
        [ "$(grep "^;; $header: " "$file")" = "$(grep "^;; $header: " lisp/agent-q-module.el)" ] ||
          echo "$file: its $header is not that of lisp/agent-q-module.el"
      done
    done
  )
  [ -z "$bad" ] || { echo "$bad"; return 1; }
}

# All of the Common Lisp half is one package, so a name that is defined twice means the latter, everywhere.
defined_once() {
  bad=$(find lisp/image -name '*.lisp' -exec grep -hoE '^\((def(un|macro|var|parameter|generic|struct)|define-table) [^ ()]+' {} + |
    awk '{ print $2 }' | sort | uniq -d)
  [ -z "$bad" ] || { echo "lisp/image: defined twice: $bad"; return 1; }
}

# The stated Rust has to build what Cargo.lock names, for the tests as well.
rust_version() {
  metadata=$(mktemp "${TMPDIR:-/tmp}/agent-q-lint.XXXXXX") || return 1
  cargo metadata --quiet --locked --format-version 1 \
    --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" > "$metadata" &&
    "$EMACS" -Q --batch -l scripts/rust-version.el "$metadata"
  status=$?
  rm -f "$metadata"
  return "$status"
}

with_tool fmt rustfmt cargo fmt --check
with_tool clippy clippy cargo clippy --quiet --all-targets -- -D warnings
check 'Rust version' rust_version
check 'Emacs Lisp' "$EMACS" -Q --batch -l scripts/lint.el
check 'uses among the Emacs Lisp' "$EMACS" -Q --batch -l scripts/graph.el
check 'generated Emacs Lisp' "$EMACS" -Q --batch -l scripts/generate.el --check
check 'what ARCHITECTURE.md names' "$EMACS" -Q --batch -l scripts/architecture.el
check 'words' "$EMACS" -Q --batch -l scripts/words.el
check 'versions' versions
check 'test files' listed
check 'names of the Common Lisp' defined_once
check 'SPDX lines' licensed
check 'file sizes' short
[ "$findings" -eq 0 ]
