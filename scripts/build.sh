#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds the core and the program agent-q-mcp in release mode, installs them into lisp/ by copy and
# rename, writes the core's manifest and byte-compiles the Emacs Lisp.

set -eu
cd "$(dirname "$0")/.."
: "${EMACS:=emacs}"

cargo build --release --lib --bin agent-q-mcp
target=${CARGO_TARGET_DIR:-target}/release
host=$(rustc -vV | sed -n 's/^host: //p')
interface=$(sed -n 's/^pub const CORE_INTERFACE: i64 = \([0-9][0-9]*\);.*/\1/p' src/lib.rs)
if [ -z "$interface" ]; then
  echo "build: src/lib.rs names no CORE_INTERFACE" >&2
  exit 1
fi
case "$host" in
  *-darwin*) built=libagent_q_core.dylib ;;
  *-windows*) built=agent_q_core.dll ;;
  *) built=libagent_q_core.so ;;
esac
suffix=$("$EMACS" -Q --batch --eval '(princ (or module-file-suffix ""))')
if [ -z "$suffix" ]; then
  echo "build: $EMACS was built without dynamic modules" >&2
  exit 1
fi

# Never written in place: a running Emacs may have the old core mapped.  An equal file stays, so
# that its time tells when it changed.
put() { # NEW INSTALLED
  if [ -f "$2" ] && cmp -s "$1" "$2"; then
    return
  fi
  cp "$1" "$2.new"
  mv -f "$2.new" "$2"
  echo "Installed $2"
}

manifest=$target/agent-q-core.manifest
size=$(($(wc -c < "$target/$built")))
printf 'interface %s\nhost %s\nsize %s\n' "$interface" "$host" "$size" > "$manifest"
put "$target/$built" "lisp/agent-q-core$suffix"
put "$manifest" lisp/agent-q-core.manifest
case "$host" in
  *-windows*) ;;
  *) put "$target/agent-q-mcp" lisp/agent-q-mcp ;;
esac

# Macros cross files, so one change recompiles all.
fresh=yes
for source in lisp/*.el; do
  [ "${source}c" -nt "$source" ] || fresh=no
done
if [ "$fresh" = no ]; then
  rm -f lisp/*.elc
  "$EMACS" -Q --batch -L lisp -f batch-byte-compile lisp/*.el
fi
