#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Puts the core that was built into an archive for people without a compiler, in target/release-files,
# with a line that names its sum. With ADDRESS, the folder of the web where the archives will be, writes
# the lines of all archives there into lisp/agent-q-release.eld, which the package of this version carries.

set -eu
cd "$(dirname "$0")/.."
: "${EMACS:=emacs}" "${ADDRESS:=}"
files=${CARGO_TARGET_DIR:-target}/release-files
version=$(sed -n 's/^;; Version: //p' lisp/agent-q.el)

sum() { # FILE
  if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

pack() {
  platform=$("$EMACS" -Q --batch -L lisp -l agent-q-module --eval '(princ (agent-q-module-platform))')
  suffix=$("$EMACS" -Q --batch --eval '(princ module-file-suffix)')
  name=agent-q-core-$version-$platform
  mkdir -p "$files"
  # What macOS adds to archives is nothing that Emacs reads.
  COPYFILE_DISABLE=1 tar -c -f - --format ustar -C lisp "agent-q-core$suffix" agent-q-mcp agent-q-core.manifest |
    gzip -9 -n > "$files/$name.tar.gz"
  printf '("%s" :sha256 "%s" :bytes %s)\n' "$platform" "$(sum "$files/$name.tar.gz")" \
    "$(($(wc -c < "$files/$name.tar.gz")))" > "$files/$name.eld"
  echo "$files/$name.tar.gz"
}

carry() {
  case "$ADDRESS" in https://*) ;; *) echo "release: ADDRESS=$ADDRESS is not https" >&2; exit 2 ;; esac
  {
    printf ';; Written by scripts/release.sh: where the cores of this version are, and what is in them.\n'
    printf '(:version "%s"\n :address "%s"\n :cores (' "$version" "$ADDRESS"
    # Each on a line of its own.
    sed -e '1!s/^/         /' "$files/agent-q-core-$version-"*.eld | sed -e '$s/$/))/'
  } > lisp/agent-q-release.eld
  echo lisp/agent-q-release.eld
}

case "${1:-pack}" in
  pack) pack; [ -z "$ADDRESS" ] || carry ;;
  carry) carry ;;
  *) echo 'release.sh [pack | carry], with ADDRESS=https://... for the latter' >&2; exit 2 ;;
esac
