#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Puts the Emacs Lisp, the Common Lisp half, the built core and the manual (Info, or Org where texinfo is not
# installed) into a package, a tar that M-x package-install-file takes. Prints its name.

set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
version=$(sed -n 's/^;; Version: //p' lisp/agent-q.el)
summary=$(sed -n 's/^;;; agent-q\.el --- \(.*[^ ]\)  *-\*-.*/\1/p' lisp/agent-q.el)
name=agent-q-$version

rm -rf "${target:?}/$name"
mkdir -p "$target/$name"
cp -R lisp/*.el lisp/*.eld lisp/image lisp/asdf lisp/tutorial lisp/agent-q-core.* "$target/$name"
rm -f "$target/$name"/*-autoloads.el
QUIET=1 sh scripts/manual.sh "$target/manual"
if [ -f "$target/manual/agent-q.info" ]; then
  cp "$target/manual/agent-q.info" "$target/manual/dir" "$target/$name"
else
  cp "$target/manual/agent-q.org" "$target/$name"
fi
printf ';;; -*- no-byte-compile: t; lexical-binding: t; -*-\n(define-package "agent-q" "%s" "%s" %s)\n' "$version" "$summary" \
  "'((emacs \"28.1\"))" > "$target/$name/agent-q-pkg.el"
(cd "$target" && tar cf "$name.tar" "$name")
rm -rf "${target:?}/$name"
echo "$target/$name.tar"
